"""The probe of a deployment: one real inference, decoded by its engine's own codec."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace

from lmi_deploy.domain.djl_serving import usual_reason
from lmi_deploy.domain.events import Answered, Event
from lmi_deploy.domain.inference_http import HttpRequest, InferenceRequest, ProbeSpec, ResponseHead
from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.engines.inference_codec import Codec
from lmi_deploy.errors import DeployFailed
from lmi_deploy.ports.clock import Clock

TIMEOUT = 300.0
"""Seconds for the probe: longer than any predict time-out, so that the server's own error is reported."""
Send = Callable[[HttpRequest], Iterator[ResponseHead | bytes]]


def probe(
    probe: ProbeSpec, codec: Codec, send: Send, *, ref: DeploymentRef, clock: Clock
) -> Generator[Event, None, str]:
    """Send a probe to the deployment, then the same to each of its LoRA adapters; returns the outcome in words.

    DeployFailed, with the server's message, if a response is not valid. Only the model itself must answer with the
    text that the probe expects.
    """
    answered = _send(probe, codec, send, ref=ref, clock=clock)
    yield answered
    for adapter in probe.adapters:
        yield _send(replace(probe, expect=""), codec, send, ref=ref, clock=clock, adapter=adapter)
    also = f", and {counted(len(probe.adapters), 'adapter')}" if probe.adapters else ""
    return f"answered in {answered.seconds:.1f} s{also}"


def _send(
    probe: ProbeSpec, codec: Codec, send: Send, *, ref: DeploymentRef, clock: Clock, adapter: str = ""
) -> Answered:
    started = clock.monotonic()
    headers = (("Content-Type", probe.content_type), *codec.adapter_headers(adapter))
    parts = list(send(HttpRequest(body=probe.body.encode(), headers=headers)))
    head = parts[0]
    assert isinstance(head, ResponseHead)
    body = b"".join(part for part in parts[1:] if isinstance(part, bytes))
    text, why, output = _read(probe, codec, head, body)
    if why:
        of = f" of the adapter {adapter}" if adapter else ""
        own = f"check `{ref.command('logs')}`, and `probe` in the recipe"
        raise DeployFailed(
            f"the model is loaded, but the probe{of} failed: {why}",
            hint="; ".join(filter(None, (usual_reason(why, output), own))),
            details=output.strip()[:2000].splitlines(),
        )
    seconds = round(clock.monotonic() - started, 3)
    return Answered(prompt=probe.prompt or probe.body, answer=text, seconds=seconds, adapter=adapter)


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
