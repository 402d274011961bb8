"""Addresses for display: without user, password, and the tokens and signatures of a query."""

from __future__ import annotations

import re
from typing import Final

_USER: Final = r"\b([a-z][a-z0-9+.-]*://)(?:[^/\s@?#]+|[^/\s@?#:]*:(?!\d+[/?#])[^\s@]+)@"
"""The second form: a password with a slash that should have been written as %2F."""
_QUERY: Final = (
    r"([?&](?:[a-z_-]*token|[a-z_-]*key|[a-z_-]*secret|password|passwd|auth|sig|[a-z-]*signature"
    r"|x-amz-credential)=)[^&#\s'\"<>)]+"
)


def is_http_address(text: str) -> bool:
    """Whether a client can make a request there; a password with a slash that is not written as %2F is no port."""
    from urllib.parse import urlsplit  # every command imports this module, and few look at an address

    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    host = parts.hostname or ""
    return parts.scheme in ("http", "https") and port != 0 and bool(host) and not re.search(r"\s", text)


def mask_urls(text: str) -> str:
    """`https://user:pw@host/?token=abc` as `https://***@host/?token=***`."""
    if "://" not in text and "=" not in text:
        return text
    # Compiled when they are first needed (`re` keeps them): each takes 0.5 ms, and most commands show no address.
    return re.sub(_QUERY, r"\1***", re.sub(_USER, r"\1***@", text, flags=re.IGNORECASE), flags=re.IGNORECASE)
