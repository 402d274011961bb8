"""The response of a container to an invocation, and the head of what its caller gets."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import web

from lmi_deploy.emulator.runtime.invocation_request import Invocation
from lmi_deploy.emulator.wire import eventstream


@dataclass(frozen=True, slots=True)
class InferenceResponse:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def kind(self) -> str:
        return self.headers.get("Content-Type", "application/octet-stream")


def echoed(requested: Invocation) -> InferenceResponse:
    kind = str(requested.params.get("ContentType", "application/octet-stream"))
    return InferenceResponse(200, {"Content-Type": kind}, requested.params["Body"])


def event_stream(variant: str, headers: Mapping[str, str]) -> web.StreamResponse:
    return web.StreamResponse(
        headers={
            "Content-Type": eventstream.CONTENT_TYPE,
            "X-Amzn-SageMaker-Content-Type": headers.get("Content-Type", "application/octet-stream"),
            **response_headers(variant, headers),
        }
    )


def response_headers(variant: str, headers: Mapping[str, str]) -> dict[str, str]:
    """Who answered, and what the container adds for its caller."""
    name = "X-Amzn-SageMaker-Custom-Attributes"
    return {
        "x-Amzn-Invoked-Production-Variant": variant,
        "x-amzn-RequestId": str(uuid.uuid4()),
        **({name: headers[name]} if name in headers else {}),
    }
