"""Our own connections to the stores of large files: bytes go from TLS directly into the caller's buffer.

The vendor's client passes each byte through several layers of Python and copies it in each; in a transfer that costs
more than everything else. Behind a proxy the vendor's client is still used: it supports proxies.
"""

from __future__ import annotations

import http.client
import os
import ssl
import threading
import weakref
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import cast
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

from lmi_deploy.sources.download_retry import RetryableError, Unreachable
from lmi_deploy.sources.hub.api_connection import remedy, trusted
from lmi_deploy.sources.hub.hub_settings import HubSettings

FAILURES = (OSError, http.client.HTTPException)


@dataclass(slots=True)
class OpenResponse:
    """A response whose body is not yet read."""

    line: http.client.HTTPConnection
    origin: str
    response: http.client.HTTPResponse

    @property
    def headers(self) -> Mapping[str, str]:
        """Names without regard to case."""
        return cast("Mapping[str, str]", self.response.headers)


class HttpClient:
    """Keeps reusable connections, for the next thread that requests the same host."""

    def __init__(self, settings: HubSettings) -> None:
        self._settings = settings
        self._idle: defaultdict[str, list[http.client.HTTPConnection]] = defaultdict(list)
        self._lock = threading.Lock()
        weakref.finalize(self, _close, self._idle)

    @staticmethod
    def serves(url: str) -> bool:
        """Whether no proxy is configured for this address."""
        parts = urlsplit(url)
        proxies = getproxies()
        required = proxies.get(parts.scheme) or proxies.get("all")
        return not required or bool(proxy_bypass(parts.hostname or ""))

    def get(self, url: str, headers: Mapping[str, str]) -> OpenResponse:
        """One GET, no redirect followed. Raises RetryableError."""
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        target = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
        if (kept := self._reusable_connection(origin)) is not None:
            try:
                return self._send_request(kept, origin, target, headers)
            except FAILURES:
                kept.close()  # the other side had closed it meanwhile: that is no failure of this request
        line = self._connected(parts)
        try:
            return self._send_request(line, origin, target, headers)
        except FAILURES as exc:
            line.close()
            raise self.failure(exc) from exc

    def end(self, opened: OpenResponse) -> None:
        """Keep the connection if its response was read to the end."""
        if opened.response.isclosed() and opened.line.sock is not None:
            with self._lock:
                self._idle[opened.origin].append(opened.line)
        else:
            opened.response.close()
            opened.line.close()

    def failure(self, exc: Exception) -> RetryableError:
        if isinstance(exc, TimeoutError):
            return RetryableError(f"no byte for {self._settings.stall_seconds:g} s")
        return RetryableError(" ".join(str(exc).split())[:200] or type(exc).__name__)

    def _reusable_connection(self, origin: str) -> http.client.HTTPConnection | None:
        with self._lock:
            idle = self._idle[origin]
            return idle.pop() if idle else None

    @staticmethod
    def _send_request(
        line: http.client.HTTPConnection, origin: str, target: str, headers: Mapping[str, str]
    ) -> OpenResponse:
        line.request("GET", target, headers=dict(headers))
        return OpenResponse(line, origin, line.getresponse())

    def _connected(self, parts: SplitResult) -> http.client.HTTPConnection:
        host, timeout = parts.hostname or "", self._settings.response_seconds
        line = (
            http.client.HTTPSConnection(host, parts.port, timeout=timeout, context=self._trust)
            if parts.scheme == "https"
            else http.client.HTTPConnection(host, parts.port, timeout=timeout)
        )
        try:
            line.connect()
        except OSError as exc:
            line.close()
            text = f"no connection within {timeout:g} s" if isinstance(exc, TimeoutError) else str(exc)
            raise Unreachable(text, **remedy("ConnectError", text)) from exc
        line.sock.settimeout(self._settings.stall_seconds)
        return line

    @cached_property
    def _trust(self) -> ssl.SSLContext:
        if self._settings.ca_bundle is not None:
            return trusted(self._settings.ca_bundle)
        if os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR"):
            return ssl.create_default_context()
        import certifi

        return ssl.create_default_context(cafile=certifi.where())


def _close(idle: Mapping[str, list[http.client.HTTPConnection]]) -> None:
    for lines in idle.values():
        for line in lines:
            line.close()
