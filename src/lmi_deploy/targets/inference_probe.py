"""The probe of a deployment: one real inference, decoded by its engine's own codec."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lmi_deploy.domain.events import Answered
from lmi_deploy.domain.inference_http import HttpRequest, InferenceRequest, ProbeSpec, ResponseHead
from lmi_deploy.engines.inference_codec import Codec
from lmi_deploy.errors import DeployFailed
from lmi_deploy.ports.clock import Clock

TIMEOUT = 300.0
"""Seconds for the probe: longer than any predict time-out, so that the server's own error is reported."""
Send = Callable[[HttpRequest], Iterator[ResponseHead | bytes]]


def probe(probe: ProbeSpec, codec: Codec, send: Send, *, name: str, clock: Clock) -> Answered:
    """Send a probe to the deployment `name`. DeployFailed, with the server's message, if the response is not valid."""
    started = clock.monotonic()
    request = HttpRequest(body=probe.body.encode(), headers=(("Content-Type", probe.content_type),))
    parts = list(send(request))
    head = parts[0]
    assert isinstance(head, ResponseHead)
    body = b"".join(part for part in parts[1:] if isinstance(part, bytes))
    text, why, output = _read(probe, codec, head, body)
    if why:
        raise DeployFailed(
            f"the model is loaded, but the probe failed: {why}",
            hint=f"check `lmi logs {name}`, and `probe` in the recipe",
            details=output.strip()[:2000].splitlines(),
        )
    seconds = round(clock.monotonic() - started, 3)
    return Answered(prompt=probe.prompt or probe.body, answer=text, seconds=seconds)


def _read(probe: ProbeSpec, codec: Codec, head: ResponseHead, body: bytes) -> tuple[str, str, str]:
    """The response; if it is not valid, the reason and what was received."""
    received = body.decode("utf-8", "replace")
    if head.status >= 300:
        return "", f"the server responded {head.status} {head.reason}", received
    decoder = codec.decoder(head, InferenceRequest(prompt=probe.prompt, body=probe.body.encode()))
    chunks = [*decoder.feed(body), *decoder.close()]
    invalid = next((chunk.error for chunk in chunks if chunk.error), "")
    if invalid:
        return "", f"the response is an error: {invalid}", ""
    text = "".join(chunk.text for chunk in chunks)
    if probe.expect and probe.expect not in text:
        return text, f"the response does not contain {probe.expect!r}", text
    return text, "" if text.strip() else "the response is empty", received
