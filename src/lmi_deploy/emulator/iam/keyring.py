"""The keys that requests may be signed with: the emulator's own, those of IAM's users, those of assumed roles."""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from lmi_deploy.emulator.context import Credentials
from lmi_deploy.emulator.iam.roles import iam_backend, sts_backend
from lmi_deploy.emulator.record_store import write_atomically
from lmi_deploy.emulator.wire.errors import ApiError
from lmi_deploy.emulator.wire.signature import Signature
from lmi_deploy.errors import UsageRefused

FILE: Final = "key.json"
VARIABLE: Final = "LMI_EMULATOR_KEY"
"""Fixes the key as `--key` does, and other users of the machine do not see it in the list of processes."""
_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


@dataclass(frozen=True, slots=True)
class KeyPair:
    id: str
    secret: str = field(repr=False)


def parse_key(text: str, origin: str) -> KeyPair:
    """`ID:SECRET`; UsageRefused otherwise, without the secret."""
    ident, colon, secret = text.partition(":")
    if not (colon and ident and secret and ident.isascii() and ident.isalnum() and secret.isascii()):
        raise UsageRefused(
            f"{origin}: not ACCESS_KEY_ID:SECRET_ACCESS_KEY, with letters and digits in the first part",
            hint="omit it: the emulator then generates a key and prints it",
        )
    return KeyPair(ident, secret)


@dataclass(frozen=True, slots=True)
class OwnKeys:
    """Keys of the account's root. `outside`, if set, are those of an outside S3 server."""

    key: KeyPair
    is_given: bool = False
    outside: KeyPair | None = None

    @property
    def displayed(self) -> KeyPair | None:
        """The key that is shown to clients; None if they already have the outside server's key."""
        return self.key if self.outside is None or self.is_given else None

    @property
    def s3(self) -> Credentials:
        existing = self.outside or self.key
        return Credentials(existing.id, existing.secret, "")


def own_keys(given: KeyPair | None, folder: Path | None, outside: Mapping[str, str] | None) -> OwnKeys:
    """`outside`: the environment, if an S3 server of the user replaces the built-in one."""
    key = _own_key(given, folder)
    if outside is None:
        return OwnKeys(key, given is not None)
    ident, secret = outside.get("AWS_ACCESS_KEY_ID"), outside.get("AWS_SECRET_ACCESS_KEY")
    return OwnKeys(key, given is not None, KeyPair(ident, secret) if ident and secret else None)


def _own_key(given: KeyPair | None, folder: Path | None) -> KeyPair:
    """The given key, else the one stored in the state folder, else a new one, which is then stored."""
    path = folder / FILE if folder is not None else None
    if given is None and path is not None and path.is_file():
        existing = json.loads(path.read_bytes())
        return KeyPair(str(existing["id"]), str(existing["secret"]))
    letters = "".join(secrets.choice(_LETTERS) for _ in range(12))
    # As long as AWS's keys, and recognizable as not from AWS.
    key = given or KeyPair(f"EMULATOR{letters}", secrets.token_urlsafe(30))
    if path is not None:
        write_atomically(path, json.dumps({"id": key.id, "secret": key.secret}).encode())
    return key


class Keyring:
    def __init__(self, account: str, own: OwnKeys) -> None:
        self._account = account
        self._own = {key.id: key.secret for key in (own.key, own.outside) if key is not None}

    def is_own(self, ident: str, secret: str) -> bool:
        """Whether that is a key of the emulator itself, of the account's root."""
        existing = self._own.get(ident)
        return existing is not None and hmac.compare_digest(existing.encode(), secret.encode())

    def secret(self, signature: Signature, now: datetime) -> str:
        """The secret with which a request with this key and session token must be signed; ApiError for an unknown
        key.
        """
        if signature.key in self._own:
            return self._own[signature.key]
        backend = iam_backend(self._account)
        for user in list(backend.users.values()):
            for key in user.access_keys:
                if key.access_key_id == signature.key and key.status == "Active":
                    return str(key.secret_access_key)
        assumed = sts_backend(self._account).get_assumed_role_from_access_key(signature.key)
        if assumed is None or not hmac.compare_digest(
            str(assumed.session_token).encode(), signature.token.encode()
        ):
            raise ApiError(
                "UnrecognizedClientException",
                "The security token included in the request is invalid.",
                status=403,
            )
        if assumed.expiration.replace(tzinfo=now.tzinfo) < now:
            raise ApiError(
                "ExpiredTokenException", "The security token included in the request is expired", status=403
            )
        return str(assumed.secret_access_key)
