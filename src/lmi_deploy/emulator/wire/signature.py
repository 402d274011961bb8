"""The signature that a request must carry. It is read, not verified: here any keys will do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lmi_deploy.emulator.wire.errors import ApiError

_CREDENTIAL: Final = re.compile(r"Credential=([^,\s]+)")
_SCOPES: Final = (4, 5)


@dataclass(frozen=True, slots=True)
class Signature:
    """Who asks (`key`, the access key), which service, in which region."""

    key: str
    region: str
    service: str


def read_signature(headers: Mapping[str, str], query: Mapping[str, str]) -> Signature | None:
    """From the header or the query (a presigned URL); None where there is none."""
    header = headers.get("Authorization", "")
    if header.startswith("AWS4-"):
        found = _CREDENTIAL.search(header)
        if found is None or "Signature=" not in header:
            raise _incomplete(header)
        return _scope(found.group(1), header)
    if "X-Amz-Credential" in query:
        return _scope(query["X-Amz-Credential"], str(query["X-Amz-Credential"]))
    return None


def _scope(text: str, header: str) -> Signature:
    parts = text.split("/")
    if len(parts) < _SCOPES[0] or parts[-1] != "aws4_request":
        raise _incomplete(header)
    key, scope = parts[0], parts[1:-1]
    # SigV4a signs for many regions and so names none.
    region = scope[1] if len(scope) > 2 else "us-east-1"
    return Signature(key=key, region=region, service=scope[-1].lower())


def _incomplete(header: str) -> ApiError:
    return ApiError(
        "IncompleteSignatureException",
        f"Authorization header requires 'Credential' parameter. Authorization header requires 'Signature' "
        f"parameter. Authorization={header[:40]}",
    )


def required(signature: Signature | None) -> Signature:
    if signature is None:
        raise ApiError("MissingAuthenticationTokenException", "Missing Authentication Token", status=403)
    return signature
