"""A request in the one form that both sides sign.

Version 4: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
Version 2: https://docs.aws.amazon.com/AmazonS3/latest/API/RESTAuthentication.html
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

_UNRESERVED: Final = "-_.~"
_SIGNATURE: Final = "X-Amz-Signature"
_SPACES: Final = re.compile(r"\s+")
_SUBRESOURCES: Final = frozenset(
    (
        *("accelerate", "acl", "analytics", "cors", "defaultObjectAcl", "delete", "inventory", "lifecycle"),
        *("location", "logging", "metrics", "notification", "partNumber", "policy", "publicAccessBlock"),
        *("replication", "requestPayment", "restore", "select", "select-type", "tagging", "torrent"),
        *("uploadId", "uploads", "versionId", "versioning", "versions", "website"),
        *("response-cache-control", "response-content-disposition", "response-content-encoding"),
        *("response-content-language", "response-content-type", "response-expires"),
    )
)
"""The query parameters that are part of the string to sign of Version 2."""


@dataclass(frozen=True, slots=True)
class SignableRequest:
    """A request's head as received: `target` is path and query, `headers` every value in its order."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> list[tuple[str, str]]:
        """Names and values, decoded."""
        parts = self.target.partition("?")[2].split("&")
        pairs = (part.partition("=") for part in parts if part)
        return [(unquote(name), unquote(value)) for name, _, value in pairs]

    def header(self, name: str) -> str:
        """All values of a header, as they are signed."""
        found = (value for key, value in self.headers if key.lower() == name)
        return ",".join(_SPACES.sub(" ", value.strip()) for value in found)

    def names(self) -> set[str]:
        return {name.lower() for name, _ in self.headers}


def canonical_request(wire: SignableRequest, path: str, signed: Iterable[str], payload: str) -> str:
    """Version 4's; `path` is one of `paths`."""
    names = list(signed)
    query = sorted((_encoded(key), _encoded(value)) for key, value in wire.query if key != _SIGNATURE)
    lines = [
        wire.method,
        path,
        "&".join(f"{key}={value}" for key, value in query),
        *(f"{name}:{wire.header(name)}" for name in names),
        "",
        ";".join(names),
        payload,
    ]
    return "\n".join(lines)


def paths(wire: SignableRequest, service: str) -> Iterator[str]:
    """The possible signed forms of the path: S3's is encoded once and unchanged, any other is encoded twice and
    normalized.

    Clients differ in which characters they escape; paths with the same meaning are equal.
    """
    once = quote(unquote(wire.path), safe="/" + _UNRESERVED) or "/"
    if service in ("s3", "s3express"):
        yield from dict.fromkeys((wire.path or "/", once))
        return
    for path in dict.fromkeys((wire.path, once)):
        yield quote(_normal(path), safe="/" + _UNRESERVED)


def version_2(wire: SignableRequest, expires: str) -> str:
    """The string to sign of a presigned URL of Version 2."""
    query = wire.query
    pairs = [(name.lower(), _SPACES.sub(" ", value.strip())) for name, value in (*wire.headers, *query)]
    amazon: dict[str, list[str]] = {}
    for name, value in pairs:
        if name.startswith("x-amz-"):
            amazon.setdefault(name, []).append(value)
    chosen = sorted((name, value) for name, value in query if name in _SUBRESOURCES)
    subresources = "&".join(f"{name}={value}" if value else name for name, value in chosen)
    given = dict(query)
    lines = [
        wire.method,
        wire.header("content-md5") or given.get("Content-MD5", ""),
        wire.header("content-type") or given.get("Content-Type", ""),
        expires,
        *(f"{name}:{','.join(amazon[name])}" for name in sorted(amazon)),
        wire.path + (f"?{subresources}" if subresources else ""),
    ]
    return "\n".join(lines)


def _encoded(text: str) -> str:
    return quote(text, safe=_UNRESERVED)


def _normal(path: str) -> str:
    """Without empty, `.` and `..` parts; the slash at the end stays."""
    if not path.strip("/"):
        return "/"
    normal = posixpath.normpath("/" + path.lstrip("/"))
    return normal + "/" if path.endswith("/") else normal
