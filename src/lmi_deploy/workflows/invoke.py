"""One inference request to a deployment: encoded by its engine's codec, the response decoded as it arrives, and
measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from lmi_deploy.domain.djl_serving import usual_reason
from lmi_deploy.domain.inference_http import Chunk, InferenceRequest, ResponseHead, Turn
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.sagemaker.resource_settings import CANDIDATE
from lmi_deploy.domain.serving_record import ServingRecord
from lmi_deploy.engines.inference_codec import codec_of, streams_adapters
from lmi_deploy.errors import DeployFailed, LmiError, NotFound, UsageRefused
from lmi_deploy.workflows.awaiting_copies import CopyAwaiter, CopyWait
from lmi_deploy.workflows.dependencies import Dependencies

_ERROR_BODY = 2000


class OnlyAsynchronous(UsageRefused):
    """Nothing was sent: the deployment takes only requests that are queued."""


@dataclass(slots=True)
class ResponseMetrics:
    """Filled while the response is read. Seconds from sending the request; None until it happened."""

    first_chunk_seconds: float | None = None
    total_seconds: float = 0.0
    tokens: int = 0
    characters: int = 0
    finish: str = ""
    head: ResponseHead | None = None
    reported: list[str] = field(default_factory=list)
    """What the user should know of it."""

    @property
    def tokens_per_second(self) -> float | None:
        """Over the time after the first token, as generation speed is usually stated."""
        if (
            self.first_chunk_seconds is None
            or self.tokens < 2
            or self.total_seconds <= self.first_chunk_seconds
        ):
            return None
        return (self.tokens - 1) / (self.total_seconds - self.first_chunk_seconds)


def invoke(
    ref: DeploymentRef,
    request: InferenceRequest,
    deps: Dependencies,
    measured: ResponseMetrics,
    *,
    timeout: float,
    wait: CopyWait | None = None,
) -> Iterator[Chunk]:
    """Pieces of the response; DeployFailed contains the server's own message if it is no success. With `wait`, a model
    that has scaled to zero copies is waited for; the measures do not contain that.
    """
    serving = _version(ref, require_serving(ref, deps), request.variant)
    _require_direct(ref, serving)
    codec, started = codec_of(serving, ref.name), 0.0
    encoded = codec.encode(request)
    require_adapter(ref.name, request.adapter, serving)
    _require_adapter_is_used(request, serving)

    def send() -> Iterator[ResponseHead | bytes]:
        nonlocal started
        started = deps.clock.monotonic()
        return deps.targets[ref.target].invoke(served_ref(ref, serving), encoded, timeout=timeout)

    response = CopyAwaiter(ref=ref, serving=serving, deps=deps, send=send, wait=wait).response()
    head = next(response)
    assert isinstance(head, ResponseHead)
    measured.head = head
    body = (chunk for chunk in response if isinstance(chunk, bytes))
    if head.status >= 300:
        raise _refused(ref, head, b"".join(body))
    decoder = codec.decoder(head, request)
    for chunk in body:
        yield from _count(decoder.feed(chunk), measured, ref, now=deps.clock.monotonic() - started)
    measured.total_seconds = deps.clock.monotonic() - started
    yield from _count(decoder.close(), measured, ref, now=measured.total_seconds)


def require_proxied(ref: DeploymentRef, deps: Dependencies) -> None:
    """OnlyAsynchronous for a deployment whose requests are queued. One that does not serve yet may do so later."""
    record = deps.targets[ref.target].read_record(ref)
    if record is not None and record.current is not None:
        _require_direct(ref, record.current.serving)


def _require_direct(ref: DeploymentRef, serving: ServingRecord) -> None:
    if serving.is_asynchronous:
        raise OnlyAsynchronous(
            f"{ref.name}: it is asynchronous: it takes no request that waits for the response",
            hint=f"ask by `{ref.command('invoke')} --async`",
        )


def require_chat(ref: DeploymentRef, deps: Dependencies) -> None:
    """UsageRefused if its handler takes no conversations, or requests are queued; nothing is sent."""
    second = InferenceRequest(prompt="How are you?", history=(Turn("Hello", "Hello"),))
    serving = require_serving(ref, deps)
    _require_direct(ref, serving)
    codec_of(serving, ref.name).encode(second)


def invoke_raw(
    ref: DeploymentRef,
    request: InferenceRequest,
    deps: Dependencies,
    *,
    timeout: float,
    wait: CopyWait | None = None,
) -> Iterator[bytes]:
    """The unchanged body; the head's status decides success, after the last byte."""
    serving = _version(ref, require_serving(ref, deps), request.variant)
    _require_direct(ref, serving)
    encoded = codec_of(serving, ref.name).encode(request)
    require_adapter(ref.name, request.adapter, serving)
    _require_adapter_is_used(request, serving)

    def send() -> Iterator[ResponseHead | bytes]:
        return deps.targets[ref.target].invoke(served_ref(ref, serving), encoded, timeout=timeout)

    response = CopyAwaiter(ref=ref, serving=serving, deps=deps, send=send, wait=wait).response()
    head = next(response)
    assert isinstance(head, ResponseHead)
    yield from (chunk for chunk in response if isinstance(chunk, bytes))
    if head.status >= 300:
        raise DeployFailed(
            f"the server responded {head.status} {head.reason}", hint="the response body is printed above"
        )


def _version(ref: DeploymentRef, serving: ServingRecord, variant: str) -> ServingRecord:
    """What answers a request to this variant. UsageRefused if no request can name it."""
    if not variant:
        return serving
    candidate = serving.candidate
    if candidate is None:
        hint = "omit --variant; endpoint.candidate in the recipe adds a second version"
        raise UsageRefused(f"{ref.name}: it has one version", hint=hint)
    if candidate.shadow:
        raise UsageRefused(
            f"{ref.name}: its candidate is a shadow variant: no request can name it",
            hint=f"omit --variant; SageMaker copies requests to it, and `{ref.command('logs')}` shows what it does",
        )
    return candidate.serving if variant == CANDIDATE else serving


def require_adapter(name: str, adapter: str, serving: ServingRecord) -> None:
    """UsageRefused for an adapter that the deployment does not have: some handlers would answer without it.

    A server that lmi gave no adapters may have some that a client registered; and a handler of the user's own may
    know more than lmi.
    """
    known = serving.adapters
    registers = serving.engine != "vllm" or "option.enable_lora" in dict(serving.properties)
    if not adapter or adapter in known or (not known and registers):
        return
    what = f"{name}: no adapter {adapter}"
    if not known:
        raise UsageRefused(
            f"{what}: it has no LoRA adapters", hint="omit --adapter, or add `adapters` to the recipe"
        )
    nearest = get_close_matches(adapter, known, n=1)
    hint = f"did you mean {nearest[0]}? " if nearest else ""
    raise UsageRefused(f"{what}", hint=f"{hint}It has {', '.join(known)}")


def _require_adapter_is_used(request: InferenceRequest, serving: ServingRecord) -> None:
    """UsageRefused for a stream that the server would answer without its adapter."""
    if request.adapter and request.stream and not streams_adapters(serving):
        raise UsageRefused(
            f"--adapter {request.adapter}: this server ignores the adapter in a stream, and the model itself would "
            "answer",
            hint="ask by `lmi invoke --no-stream`",
        )


def _count(
    chunks: list[Chunk], measured: ResponseMetrics, ref: DeploymentRef, *, now: float
) -> Iterator[Chunk]:
    for chunk in chunks:
        if chunk.text and measured.first_chunk_seconds is None:
            measured.first_chunk_seconds = now
        measured.tokens += chunk.tokens
        measured.characters += len(chunk.text)
        measured.finish = chunk.finish or measured.finish
        if chunk.error:
            own = f"see `{ref.command('logs')}`"
            reason = usual_reason(chunk.error)
            hint = f"{reason}; otherwise {own}" if reason else own
            raise DeployFailed(f"the response ended early: {chunk.error}", hint=hint)
        yield chunk


def _refused(ref: DeploymentRef, head: ResponseHead, body: bytes) -> DeployFailed:
    text = body.decode("utf-8", "replace").strip()[:_ERROR_BODY]
    own = f"see `{ref.command('logs')}`"
    hint = "correct the request; the deployment works" if 400 <= head.status < 424 else own
    if reason := usual_reason(text):
        hint = f"{reason}; otherwise {own}"
    return DeployFailed(
        f"the server responded {head.status} {head.reason}", hint=hint, details=text.splitlines()
    )


def served_ref(ref: DeploymentRef, serving: ServingRecord) -> DeploymentRef:
    """How it is invoked: a name alone does not tell whether it shares an endpoint."""
    return replace(ref, shared=serving.shared)


def require_serving(ref: DeploymentRef, deps: Dependencies) -> ServingRecord:
    """What it serves. NotFound if it does not answer yet, or does not exist."""
    record = deps.targets[ref.target].read_record(ref)
    if record is not None and record.current is None:
        raise NotFound(
            f"{ref.name}: it does not answer yet",
            hint=f"run `{ref.command('status')}` for the reason and the next step",
        )
    if record is None or record.current is None:
        raise NotFound(f"{ref.name}: {_absence(ref, deps)}", hint="`lmi ls` lists the deployments")
    return record.current.serving


def _absence(ref: DeploymentRef, deps: Dependencies) -> str:
    """Why what has no record does not answer: it does not exist, or its models answer for it."""
    target = deps.targets[ref.target]
    try:
        status, why = target.status_of(target.observe(ref))
    except LmiError:  # who may only invoke knows no more
        status, why = "absent", ""
    return "no such deployment is running" if status == "absent" else f"it answers no requests itself: {why}"
