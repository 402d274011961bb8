"""One question to a deployment: encoded by its engine's codec, the answer decoded as it comes, and measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from lmi_deploy.domain.inference_http import Head, HttpRequest, Piece, Question
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.engines.codec import Codec, codec_of
from lmi_deploy.errors import DeployFailed, NotFound
from lmi_deploy.workflows.dependencies import Deps

_ERROR_BODY = 2000


@dataclass(slots=True)
class Measured:
    """Filled while the answer is read. Seconds from sending the request; None until it happened."""

    first_piece: float | None = None
    whole: float = 0.0
    tokens: int = 0
    characters: int = 0
    finish: str = ""
    head: Head | None = None
    told: list[str] = field(default_factory=list)

    @property
    def tokens_per_second(self) -> float | None:
        """Over the time after the first token, as generation speed is usually stated."""
        if self.first_piece is None or self.tokens < 2 or self.whole <= self.first_piece:
            return None
        return (self.tokens - 1) / (self.whole - self.first_piece)


def ask(
    ref: DeploymentRef, question: Question, deps: Deps, measured: Measured, *, timeout: float
) -> Iterator[Piece]:
    """Pieces of the answer; DeployFailed carries the server's own words when it is no success."""
    codec = codec_of(_summary(ref, deps))
    answer = deps.targets[ref.target].invoke(ref, _request(codec, question), timeout=timeout)
    begun = deps.clock.monotonic()
    head = next(answer)
    assert isinstance(head, Head)
    measured.head = head
    body = (chunk for chunk in answer if isinstance(chunk, bytes))
    if head.status >= 300:
        raise _refused(ref.name, head, b"".join(body))
    decoder = codec.decoder(head, question)
    for chunk in body:
        yield from _count(decoder.feed(chunk), measured, ref.name, now=deps.clock.monotonic() - begun)
    measured.whole = deps.clock.monotonic() - begun
    yield from _count(decoder.close(), measured, ref.name, now=measured.whole)


def ask_raw(ref: DeploymentRef, question: Question, deps: Deps, *, timeout: float) -> Iterator[bytes]:
    """The body as it came, whatever it is; the head's status decides success, after the last byte."""
    codec = codec_of(_summary(ref, deps))
    answer = deps.targets[ref.target].invoke(ref, _request(codec, question), timeout=timeout)
    head = next(answer)
    assert isinstance(head, Head)
    yield from (chunk for chunk in answer if isinstance(chunk, bytes))
    if head.status >= 300:
        raise DeployFailed(
            f"the server answered {head.status} {head.reason}", hint="its body is above, as it came"
        )


def _request(codec: Codec, question: Question) -> HttpRequest:
    return replace(codec.encode(question), stream=question.stream)


def _count(pieces: list[Piece], measured: Measured, name: str, *, now: float) -> Iterator[Piece]:
    for piece in pieces:
        if piece.text and measured.first_piece is None:
            measured.first_piece = now
        measured.tokens += piece.tokens
        measured.characters += len(piece.text)
        measured.finish = piece.finish or measured.finish
        if piece.error:
            raise DeployFailed(f"the answer broke off: {piece.error}", hint=f"see `lmi logs {name}`")
        yield piece


def _refused(name: str, head: Head, body: bytes) -> DeployFailed:
    text = body.decode("utf-8", "replace").strip()[:_ERROR_BODY]
    ours = f"see `lmi logs {name}`"
    hint = "the request is at fault, not the deployment" if 400 <= head.status < 424 else ours
    return DeployFailed(
        f"the server answered {head.status} {head.reason}", hint=hint, details=text.splitlines()
    )


def _summary(ref: DeploymentRef, deps: Deps) -> dict[str, str]:
    record = deps.targets[ref.target].recorded(ref)
    if record is not None and record.current is None:
        raise NotFound(
            f"{ref.name}: it has not come to answer yet",
            hint=f"`lmi status {ref.name}` says why, and how to go on",
        )
    if record is None or record.current is None:
        raise NotFound(
            f"{ref.name}: no deployment of that name answers here", hint="`lmi ls` lists what is here"
        )
    return {key: str(value) for key, value in record.current.summary.items()}
