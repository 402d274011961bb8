"""Who may use the proxy: the holder of the key, and on loopback no web page that found it there. Pure."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from lmi_deploy.domain.secret import Secret
from lmi_deploy.proxy.openai_error import OpenAIError


@dataclass(frozen=True, slots=True)
class ProxyAccess:
    """`host` is the address that it listens at."""

    host: str
    key: Secret | None

    def check_host(self, headers: Mapping[bytes, bytes]) -> None:
        """OpenAIError (403) if the proxy listens on loopback and the request names another host: a page of the web can
        let its own name point here (DNS rebinding), but it cannot change this header.
        """
        if not is_loopback(self.host):
            return
        name = _host_name(headers.get(b"host", b"").decode("latin-1"))
        if name and name != "localhost" and not name.endswith(".localhost") and not is_loopback(name):
            raise OpenAIError(
                403,
                f"Host {name[:100]} is not a name of this machine, and the proxy serves only this machine: use "
                "localhost or 127.0.0.1",
                code="host_refused",
            )

    def check_origin(self, headers: Mapping[bytes, bytes]) -> None:
        """OpenAIError (403) for a request that a page of another machine sends through the user's browser: it could
        not read the response, but the request would cost.
        """
        origin = headers.get(b"origin")
        if origin is None or not is_loopback(self.host):
            return
        name = _host_name(origin.decode("latin-1").rpartition("/")[2])
        if name != "localhost" and not name.endswith(".localhost") and not is_loopback(name):
            raise OpenAIError(
                403,
                f"Origin {origin.decode('latin-1')[:100]} may not use this proxy: send the request without a browser",
                code="origin_refused",
            )

    def check_key(self, headers: Mapping[bytes, bytes]) -> None:
        """OpenAIError (401) without the key, if there is one."""
        if self.key is None:
            return
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        expected = self.key.value.encode()
        if scheme.lower() != b"bearer" or not hmac.compare_digest(given.strip(), expected):
            problem = "Incorrect API key provided" if given else "No API key provided"
            raise OpenAIError(
                401, f"{problem}: send the proxy's key as Authorization: Bearer KEY", code="invalid_api_key"
            )


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _host_name(text: str) -> str:
    """A Host header without its port."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0].lower().rstrip(".")
