"""Who may use the proxy: the holder of the key, and on loopback no web page whose name points there. Pure."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass

from lmi_deploy.domain.local_host_names import foreign_host
from lmi_deploy.domain.secret import Secret
from lmi_deploy.proxy.openai_error import OpenAIError


@dataclass(frozen=True, slots=True)
class ProxyAccess:
    """`host` is the address that it listens at."""

    host: str
    key: Secret

    def check_host(self, headers: Mapping[bytes, bytes]) -> None:
        """OpenAIError (403) if the proxy listens on loopback and the request names another host."""
        if refusal := foreign_host(headers.get(b"host", b"").decode("latin-1"), self.host):
            raise OpenAIError(403, refusal, code="host_refused")

    def check_key(self, headers: Mapping[bytes, bytes]) -> None:
        """OpenAIError (401) without the key."""
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        expected = self.key.value.encode()
        if scheme.lower() != b"bearer" or not hmac.compare_digest(given.strip(), expected):
            problem = "Incorrect API key provided" if given else "No API key provided"
            raise OpenAIError(
                401, f"{problem}: send the proxy's key as Authorization: Bearer KEY", code="invalid_api_key"
            )
