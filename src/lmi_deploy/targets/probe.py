"""The proof that a deployment answers: one real inference, read by its engine's own codec."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lmi_deploy.domain.events import Answered
from lmi_deploy.domain.inference_http import Head, HttpRequest, Question
from lmi_deploy.domain.spec import ProbeSpec
from lmi_deploy.engines.codec import Codec
from lmi_deploy.errors import DeployFailed
from lmi_deploy.ports.clock import Clock

TIMEOUT = 300.0
"""Seconds for the probe: longer than any predict time-out, so that the server's own error is what is told."""
Send = Callable[[HttpRequest], Iterator[Head | bytes]]


def prove(probe: ProbeSpec, codec: Codec, send: Send, *, name: str, clock: Clock) -> Answered:
    """Ask the deployment `name`. DeployFailed, with the server's words, when what comes back is no answer."""
    begun = clock.monotonic()
    request = HttpRequest(body=probe.body.encode(), headers=(("Content-Type", probe.content_type),))
    parts = list(send(request))
    head = parts[0]
    assert isinstance(head, Head)
    body = b"".join(part for part in parts[1:] if isinstance(part, bytes))
    text, why, said = _read(probe, codec, head, body)
    if why:
        raise DeployFailed(
            f"the model is loaded, but does not answer: {why}",
            hint=f"see `lmi logs {name}`; the recipe's `probe` says what is asked",
            details=said.strip()[:2000].splitlines(),
        )
    seconds = round(clock.monotonic() - begun, 3)
    return Answered(prompt=probe.prompt or probe.body, answer=text, seconds=seconds)


def _read(probe: ProbeSpec, codec: Codec, head: Head, body: bytes) -> tuple[str, str, str]:
    """The answer; and why it is none, with what came in its place."""
    came = body.decode("utf-8", "replace")
    if head.status >= 300:
        return "", f"the server answered {head.status} {head.reason}", came
    decoder = codec.decoder(head, Question(prompt=probe.prompt, body=probe.body.encode()))
    pieces = [*decoder.feed(body), *decoder.close()]
    broken = next((piece.error for piece in pieces if piece.error), "")
    if broken:
        return "", f"the answer is an error: {broken}", ""
    text = "".join(piece.text for piece in pieces)
    if probe.expect and probe.expect not in text:
        return text, f"the answer does not hold {probe.expect!r}", text
    return text, "" if text.strip() else "the answer is empty", came
