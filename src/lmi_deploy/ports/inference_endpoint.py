"""Where inference requests to a deployment go, for a client of its own: the proxy and the benchmark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lmi_deploy.domain.inference_http import SigningKeys


class KeySource(Protocol):
    def __call__(self, *, renew: bool = False) -> SigningKeys:
        """The keys that are valid now; `renew`: the service has refused them as expired, so read them again.

        It may block: the keys may come from a file, a program or a service. AccessError if there are none.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSigning:
    """AWS Signature Version 4."""

    region: str
    service: str
    keys: KeySource
    headers: tuple[tuple[str, str], ...] = ()
    """That each request has in addition, unless it has its own, and that are signed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceEndpoint:
    """Requests are POSTs of the body alone."""

    url: str
    stream_url: str
    """For a response in pieces: another operation on SageMaker, whose pieces are events; else the same."""
    max_bytes: int | None = None
    """Of a request; None: the server decides."""
    signing: RequestSigning | None = None
    adapters_url: str = ""
    """Where the server lists its LoRA adapters; empty if it has none, or if they cannot be listed."""
