"""Requests to the Hub through its own library's client, with every failure as an error of lmi.

Each request follows redirects again: a signed address is never stored, shown or logged, so it cannot be used after
its expiry either.
"""

from __future__ import annotations

import importlib
import logging
import platform
import ssl
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lmi_deploy import __version__
from lmi_deploy.errors import UsageRefused
from lmi_deploy.sources.download_retry import RetryableError, Unreachable
from lmi_deploy.sources.hub.errors import HubErrorResponse, HubResource, translate
from lmi_deploy.sources.hub.hub_settings import HubSettings

MOST_OF_AN_ERROR = 64 << 10


@dataclass(frozen=True, slots=True)
class HubResponse:
    """A successful response: `first` are the headers of the Hub itself, if it sent a redirect."""

    status: int
    headers: Mapping[str, str]
    first: Mapping[str, str]
    chunks: Iterator[bytes]


class HubConnection:
    """Opens lazily: nothing of the vendor is imported before the first request."""

    def __init__(self, settings: HubSettings) -> None:
        self.settings = settings

    @contextmanager
    def get(self, address: str, subject: HubResource, headers: Mapping[str, str]) -> Generator[HubResponse]:
        """One GET below the endpoint. Raises RetryableError if another attempt may help, else an LmiError."""
        timeout = (
            self.settings.response_seconds,
            self.settings.stall_seconds,
            self.settings.stall_seconds,
            None,
        )
        sent = {**self.headers, **headers, "Accept-Encoding": "identity"}
        url = self.settings.endpoint + address
        try:
            with self._session.stream(
                "GET", url, headers=sent, timeout=timeout, follow_redirects=True
            ) as got:
                if got.status_code >= 400:
                    raise translate(_refusal(got), subject, self.settings)
                first = got.history[0].headers if got.history else got.headers
                yield HubResponse(got.status_code, got.headers, first, got.iter_bytes())
        except self._vendor.RequestError as exc:
            raise self._failure(exc) from exc

    @cached_property
    def _session(self) -> Any:
        from huggingface_hub import get_session

        _silence_vendor_logs()
        bundle = self.settings.ca_bundle
        try:
            if bundle is None:
                return get_session()
            authority = trusted(bundle)
        except OSError as exc:
            raise UsageRefused(
                f"certificates: {bundle or 'the file of SSL_CERT_FILE'}: {exc.strerror or exc}",
                hint="set SSL_CERT_FILE, REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE to a file of PEM certificates",
            ) from exc
        return self._vendor.Client(verify=authority, follow_redirects=True, timeout=None)

    @cached_property
    def _vendor(self) -> Any:
        """The HTTP package under huggingface_hub (its name changed between releases)."""
        from huggingface_hub.errors import HfHubHTTPError

        below = next(base for base in HfHubHTTPError.__mro__ if base.__name__ == "HTTPError")
        return importlib.import_module(below.__module__.partition(".")[0])

    @property
    def headers(self) -> dict[str, str]:
        # Not the vendor's build_hf_headers: it first requests a list from the Hub, with a time-out of 3 s, to name
        # the program that it runs under.
        headers = {"User-Agent": f"lmi-deploy/{__version__}; python/{platform.python_version()}"}
        if self.settings.token is not None:
            headers["Authorization"] = f"Bearer {self.settings.token.value}"
        return headers

    def _failure(self, exc: Exception) -> RetryableError:
        kind, text = type(exc).__name__, " ".join(str(exc).split())[:200]
        if kind == "ReadTimeout":
            return RetryableError(f"no byte for {self.settings.stall_seconds:g} s")
        if kind == "ConnectTimeout":
            text = f"no connection within {self.settings.response_seconds:g} s"
        elif kind not in ("ConnectError", "ProxyError", "UnsupportedProtocol"):
            return RetryableError(text or kind)
        return Unreachable(text or kind, **remedy(kind, text))


def trusted(bundle: Path) -> ssl.SSLContext:
    if bundle.is_dir():
        return ssl.create_default_context(capath=str(bundle))
    return ssl.create_default_context(cafile=str(bundle))


def remedy(kind: str, text: str) -> Any:
    if "CERTIFICATE" in text.upper():
        hint = (
            "the certificate is not trusted: if a proxy inspects TLS, set SSL_CERT_FILE to the certificate file "
            "of its authority"
        )
        return {"hint": hint, "hopeless": True}
    if "[SSL" in text.upper():
        hint = "check that HF_ENDPOINT, or the proxy of HTTPS_PROXY, speaks TLS: https:// and its port"
        return {"hint": hint, "hopeless": "WRONG_VERSION" in text.upper()}
    if kind == "ProxyError":
        return {
            "hint": "a proxy refused the request: check HTTPS_PROXY, HTTP_PROXY and NO_PROXY",
            "hopeless": True,
        }
    return {
        "hint": "check the network, HTTPS_PROXY and HF_ENDPOINT; set HF_HUB_OFFLINE=1 to use only the cache"
    }


def _refusal(got: Any) -> HubErrorResponse:
    body = b""
    for chunk in got.iter_bytes():
        body += chunk
        if len(body) > MOST_OF_AN_ERROR:
            break
    other_location = bool(got.history) and got.url.netloc != got.history[0].url.netloc
    return HubErrorResponse(got.status_code, got.headers, body, other_location)


def _silence_vendor_logs() -> None:
    """The vendor logs every address at INFO, including signatures; this must not be enabled by accident."""
    for name in ("httpx", "httpx2", "httpcore", "httpcore2"):
        logging.getLogger(name).setLevel(logging.WARNING)
