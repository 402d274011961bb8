"""Addresses for display: without user, password, and the tokens and signatures of a query."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

_USER: Final = re.compile(
    r"\b([a-z][a-z0-9+.-]*://)(?:[^/\s@?#]+|[^/\s@?#:]*:(?!\d+[/?#])[^\s@]+)@", re.IGNORECASE
)
"""The second form: a password with a slash that should have been written as %2F."""
_QUERY: Final = re.compile(
    r"([?&](?:[a-z_-]*token|[a-z_-]*key|[a-z_-]*secret|password|passwd|auth|sig|[a-z-]*signature"
    r"|x-amz-credential)=)[^&#\s'\"<>)]+",
    re.IGNORECASE,
)


def is_http_address(text: str) -> bool:
    """Whether a client can make a request there; a password with a slash that is not written as %2F is no port."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    host = parts.hostname or ""
    return parts.scheme in ("http", "https") and port != 0 and bool(host) and not re.search(r"\s", text)


def mask_urls(text: str) -> str:
    """`https://user:pw@host/?token=abc` as `https://***@host/?token=***`."""
    return _QUERY.sub(r"\1***", _USER.sub(r"\1***@", text)) if "://" in text or "=" in text else text
