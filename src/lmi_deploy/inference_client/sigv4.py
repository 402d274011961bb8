"""AWS Signature Version 4 of a POST, in the `Authorization` header. Pure: the time is an argument.

By AWS's description (Signature Version 4 in the IAM User Guide); tests compare it with botocore's SigV4Auth.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from lmi_deploy.domain.inference_http import SigningKeys

ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(slots=True)
class RequestSigner:
    """Of one service in one region. The key of a day is derived once."""

    region: str
    service: str
    _derived: tuple[str, str, bytes] = ("", "", b"")

    def sign(
        self,
        keys: SigningKeys,
        *,
        path: str,
        headers: Mapping[str, str],
        body: bytes,
        now: datetime,
    ) -> dict[str, str]:
        """The headers to send in addition to `headers`, all of which are signed: they contain Host.

        `path` is in the form in which it is sent, `now` is in UTC.
        """
        stamp = now.strftime("%Y%m%dT%H%M%SZ")
        added = {"X-Amz-Date": stamp}
        if keys.token:
            added["X-Amz-Security-Token"] = keys.token.value
        signed = sorted(
            (name.lower(), " ".join(value.split())) for name, value in {**headers, **added}.items()
        )
        names = ";".join(name for name, _ in signed)
        canonical = "\n".join(
            (
                *("POST", quote(path, safe="/-_.~"), ""),
                *(f"{name}:{value}" for name, value in signed),
                *("", names, hashlib.sha256(body).hexdigest()),
            )
        )
        scope = f"{stamp[:8]}/{self.region}/{self.service}/aws4_request"
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        text = f"{ALGORITHM}\n{stamp}\n{scope}\n{digest}"
        signature = _hmac(self._key(keys, stamp[:8]), text).hex()
        credential = f"Credential={keys.access_key}/{scope}"
        added["Authorization"] = f"{ALGORITHM} {credential}, SignedHeaders={names}, Signature={signature}"
        return added

    def _key(self, keys: SigningKeys, day: str) -> bytes:
        if self._derived[:2] != (day, keys.secret_key.value):
            key = f"AWS4{keys.secret_key.value}".encode()
            for part in (day, self.region, self.service, "aws4_request"):
                key = _hmac(key, part)
            self._derived = (day, keys.secret_key.value, key)
        return self._derived[2]


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
