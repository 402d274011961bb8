"""The Hub's settings in the environment, by the names that its users know."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lmi_deploy.domain.secret import Secret
from lmi_deploy.errors import UsageRefused
from lmi_deploy.errors.url_redaction import is_http_address

PUBLIC_HUB = "https://huggingface.co"
STALL_TIMEOUT = 10.0
"""Seconds without a response or a byte, unless HF_HUB_ETAG_TIMEOUT and HF_HUB_DOWNLOAD_TIMEOUT are set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HubSettings:
    """`token_from` is the origin of the token, for error messages."""

    endpoint: str
    cache: Path
    token: Secret | None = None
    token_from: str = ""
    offline: bool = False
    response_seconds: float = STALL_TIMEOUT
    stall_seconds: float = STALL_TIMEOUT
    ca_bundle: Path | None = None
    symlinks: bool = True

    @classmethod
    def read(cls, environ: Mapping[str, str], home: Path) -> HubSettings:
        """HF_HOME, HF_HUB_CACHE, HF_ENDPOINT, HF_TOKEN, HF_TOKEN_PATH, HF_HUB_OFFLINE and the rest."""
        hf_home = _hf_home(environ, home)
        cache = environ.get("HF_HUB_CACHE") or environ.get("HUGGINGFACE_HUB_CACHE")
        token, token_from = _token(
            environ, _path(environ.get("HF_TOKEN_PATH"), environ, home) or hf_home / "token"
        )
        return cls(
            endpoint=_endpoint(environ),
            cache=_path(cache, environ, home) or hf_home / "hub",
            token=token,
            token_from=token_from,
            offline=_is_true(environ.get("HF_HUB_OFFLINE") or environ.get("TRANSFORMERS_OFFLINE")),
            response_seconds=_seconds(environ, "HF_HUB_ETAG_TIMEOUT"),
            stall_seconds=_seconds(environ, "HF_HUB_DOWNLOAD_TIMEOUT"),
            ca_bundle=_ca_bundle(environ),
            symlinks=not _is_true(environ.get("HF_HUB_DISABLE_SYMLINKS")),
        )


def _hf_home(environ: Mapping[str, str], home: Path) -> Path:
    caches = _path(environ.get("XDG_CACHE_HOME"), environ, home) or home / ".cache"
    return _path(environ.get("HF_HOME"), environ, home) or caches / "huggingface"


def _path(text: str | None, environ: Mapping[str, str], home: Path) -> Path | None:
    """`~` and `$NAME` as the Hub's own library reads them."""
    if not text:
        return None
    text = re.sub(r"\$(\w+|\{\w+\})", lambda m: environ.get(m[1].strip("{}"), m[0]), text)
    return home / text[2:] if text.startswith("~/") else Path(text)


def _endpoint(environ: Mapping[str, str]) -> str:
    endpoint = (environ.get("HF_ENDPOINT") or PUBLIC_HUB).rstrip("/")
    if not is_http_address(endpoint):
        # Not shown: it may contain a password.
        raise UsageRefused(
            "HF_ENDPOINT: not an address: write http:// or https://, then a host",
            hint=f"set it to an address such as {PUBLIC_HUB}, or unset it",
        )
    return endpoint


def _token(environ: Mapping[str, str], file: Path) -> tuple[Secret | None, str]:
    if _is_true(environ.get("HF_HUB_DISABLE_IMPLICIT_TOKEN")):
        return None, ""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        if token := _clean(environ.get(name, "")):
            return Secret(token), name
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if token := _clean(file.read_text("utf-8")):
            return Secret(token), str(file)
    return None, ""


def _clean(token: str) -> str:
    return token.replace("\r", "").replace("\n", "").strip()


def _ca_bundle(environ: Mapping[str, str]) -> Path | None:
    """Only for what the Hub's own client does not read: it reads SSL_CERT_FILE and SSL_CERT_DIR itself."""
    if environ.get("SSL_CERT_FILE") or environ.get("SSL_CERT_DIR"):
        return None
    bundle = environ.get("REQUESTS_CA_BUNDLE") or environ.get("CURL_CA_BUNDLE")
    return Path(bundle) if bundle else None


def _seconds(environ: Mapping[str, str], name: str) -> float:
    with contextlib.suppress(ValueError):
        return float(environ.get(name, "")) or STALL_TIMEOUT
    return STALL_TIMEOUT


def _is_true(value: str | None) -> bool:
    return (value or "").upper() in ("1", "ON", "YES", "TRUE")
