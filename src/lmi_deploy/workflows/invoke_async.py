"""A request to an asynchronous deployment: submitted, waited for, fetched later."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from lmi_deploy.domain.async_requests import MOST_BYTES, AsyncLimits, AsyncResult, AsyncTicket
from lmi_deploy.domain.djl_serving import usual_reason
from lmi_deploy.domain.events import Event, Progress
from lmi_deploy.domain.inference_http import InferenceRequest, ResponseHead
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.engines.inference_codec import codec_of
from lmi_deploy.errors import DeployFailed, Interrupted, UsageRefused
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.invoke import require_adapter, require_serving

INTERVALS: Final = (0.5, 1.0, 2.0, 5.0)
_LOOK_EVERY: Final = 6
"""Looks for the response, from one look for instances to the next."""
"""Seconds between two looks; the last one repeats."""
_ERROR_BODY: Final = 2000


def submit(
    ref: DeploymentRef, request: InferenceRequest, deps: Dependencies, limits: AsyncLimits
) -> AsyncTicket:
    """UsageRefused if the deployment answers directly, or the request is too large."""
    queue, serving = deps.targets[ref.target].async_requests(ref), require_serving(ref, deps)
    if not serving.is_asynchronous:
        raise UsageRefused(
            f"{ref.name}: it is not asynchronous",
            hint="omit --async, or add `endpoint: {asynchronous: {}}` to the recipe and run `lmi up`",
        )
    require_adapter(ref.name, request.adapter, serving)
    encoded = codec_of(serving, ref.name).encode(request)
    if len(encoded.body) > MOST_BYTES:
        raise UsageRefused(
            f"{ref.name}: the request has {len(encoded.body):,} bytes; SageMaker accepts at most {MOST_BYTES:,}",
            hint="send a smaller request",
        )
    return queue.submit(encoded, limits, prompt=request.prompt)


def fetch(ref: DeploymentRef, inference_id: str, deps: Dependencies) -> tuple[AsyncTicket, AsyncResult]:
    queue = deps.targets[ref.target].async_requests(ref)
    ticket = queue.ticket(inference_id)
    return ticket, queue.result(ticket)


def wait(ref: DeploymentRef, ticket: AsyncTicket, deps: Dependencies) -> Generator[Event, None, AsyncResult]:
    """The result. If the user interrupts it, the request goes on."""
    queue, started, tries, sleeps = (
        deps.targets[ref.target].async_requests(ref),
        deps.clock.monotonic(),
        0,
        False,
    )
    try:
        while (result := queue.result(ticket)).status == "pending":
            waited = round(deps.clock.monotonic() - started, 1)
            note = "waiting for the response"
            if tries % _LOOK_EVERY == 1:
                sleeps = not queue.has_instances()
            if sleeps:
                note = "waiting for the response; no instance runs, and the queue starts one, which takes minutes"
            yield Progress(key=f"invoke {ref.name}", done=waited, total=None, unit="seconds", note=note)
            deps.clock.sleep(INTERVALS[min(tries, len(INTERVALS) - 1)])
            tries += 1
    except KeyboardInterrupt:
        raise Interrupted("interrupted: the request goes on", hint=fetching(ref, ticket)) from None
    return result


def fetching(ref: DeploymentRef, ticket: AsyncTicket) -> str:
    return f"`{ref.command('invoke')} --result {ticket.inference_id}` fetches the response"


def response_of(ref: DeploymentRef, result: AsyncResult) -> bytes:
    """The body. DeployFailed with the text of the failure."""
    if result.status == "failed":
        text = result.body.decode("utf-8", "replace").strip()[:_ERROR_BODY]
        own = f"see `{ref.command('logs')}`"
        raise DeployFailed(
            f"{ref.name}: the request failed",
            hint="; otherwise ".join(filter(None, (usual_reason(text), own))),
            details=text.splitlines(),
        )
    return result.body


def text_of(ref: DeploymentRef, ticket: AsyncTicket, body: bytes, deps: Dependencies) -> str:
    """The text of a response, by the codec of what is deployed."""
    codec = codec_of(require_serving(ref, deps), ref.name)
    head = ResponseHead(status=200, reason="OK", headers=())
    decoder = codec.decoder(head, InferenceRequest(prompt=ticket.prompt))
    chunks = [*decoder.feed(body), *decoder.close()]
    if wrong := next((chunk.error for chunk in chunks if chunk.error), ""):
        raise DeployFailed(f"the response is an error: {wrong}", hint=f"see `{ref.command('logs')}`")
    return "".join(chunk.text for chunk in chunks)
