"""The options of `lmi invoke` for an asynchronous endpoint, and what they do."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import click

from lmi_deploy.api.deployment_lookup import ref_fields
from lmi_deploy.cli.context import CommandContext
from lmi_deploy.domain.async_requests import (
    LONGEST_PROCESSING,
    LONGEST_QUEUE,
    SHORTEST_QUEUE,
    USUAL_PROCESSING,
    AsyncLimits,
    AsyncResult,
    AsyncTicket,
)
from lmi_deploy.domain.inference_http import InferenceRequest
from lmi_deploy.domain.number_text import seconds_text
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.errors import CHANGES_PENDING, UsageRefused
from lmi_deploy.workflows import invoke_async

F = TypeVar("F", bound=Callable[..., Any])
_OPTIONS = (
    click.option(
        "--async",
        "wanted",
        is_flag=True,
        help="Send it through the queue of an asynchronous endpoint; the default for such an endpoint.",
    ),
    click.option(
        "--detach", is_flag=True, help="Send it as --async does, print the inference id, and do not wait."
    ),
    click.option(
        "--result", metavar="ID", help="Fetch the response to an asynchronous request; exit 4: none yet."
    ),
    click.option(
        "--invocation-timeout",
        type=click.IntRange(1, LONGEST_PROCESSING),
        default=USUAL_PROCESSING,
        show_default=True,
        help="With --async: seconds that the model may take.",
    ),
    click.option(
        "--request-ttl",
        type=click.IntRange(SHORTEST_QUEUE, LONGEST_QUEUE),
        default=LONGEST_QUEUE,
        show_default=True,
        help="With --async: seconds that the request may be in the queue.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncOptions:
    """`result`: the inference id of an earlier request."""

    wanted: bool
    detach: bool
    result: str | None
    limits: AsyncLimits

    def require_result_alone(self, *, new: bool) -> None:
        if new or self.wanted:
            raise UsageRefused(
                "--result and a new request cannot be combined", hint="lmi invoke NAME --result ID"
            )

    def require_whole(self, *, stream: bool) -> None:
        """UsageRefused for options that the queue does not have."""
        if self.wanted and stream:
            raise UsageRefused(
                "an asynchronous request has no stream: its response is one object in S3",
                hint="omit --stream",
            )

    def send(
        self, ref: DeploymentRef, request: InferenceRequest, context: CommandContext, *, raw: bool
    ) -> int:
        deps = context.deps
        ticket = invoke_async.submit(ref, replace(request, stream=False), deps, self.limits)
        if self.detach:
            context.view.note(invoke_async.fetching(ref, ticket))
            fields = {"inference_id": ticket.inference_id, "status": "pending", "output": ticket.output}
            context.view.result({**ref_fields(ref), **fields}, ticket.inference_id)
            return 0
        context.view.note(f"request {ticket.inference_id} is in the queue of {ref.name}")
        started = deps.clock.monotonic()
        result = context.outcome(invoke_async.wait(ref, ticket, deps))
        context.view.note(f"[{seconds_text(deps.clock.monotonic() - started)} in total]")
        _print(_Answered(ref, ticket, result), context, raw=raw)
        return 0

    def fetch(self, ref: DeploymentRef, context: CommandContext, *, raw: bool) -> int:
        """The response to `--result`, or exit code 4."""
        inference_id = str(self.result)
        ticket, result = invoke_async.fetch(ref, inference_id, context.deps)
        if result.status != "pending":
            _print(_Answered(ref, ticket, result), context, raw=raw)
            return 0
        fields = {"inference_id": inference_id, "status": "pending", "submitted": ticket.submitted}
        context.view.note(f"{ref.name}: no response yet to the request of {ticket.submitted}")
        context.view.result({**ref_fields(ref), **fields})
        return CHANGES_PENDING


@dataclass(frozen=True, slots=True)
class _Answered:
    ref: DeploymentRef
    ticket: AsyncTicket
    result: AsyncResult


def _print(found: _Answered, context: CommandContext, *, raw: bool) -> None:
    body = invoke_async.response_of(found.ref, found.result)
    if raw:
        sys.stdout.buffer.write(body)
        sys.stdout.buffer.flush()
        return
    text = invoke_async.text_of(found.ref, found.ticket, body, context.deps)
    fields = {"inference_id": found.ticket.inference_id, "status": "done", "answer": text}
    context.view.result({**ref_fields(found.ref), **fields}, text)


def async_options(command: F) -> F:
    """The options, as the argument `queue`."""

    @functools.wraps(command)
    def with_queue(
        *,
        wanted: bool,
        detach: bool,
        result: str | None,
        invocation_timeout: int,
        request_ttl: int,
        **given: Any,
    ) -> Any:
        limits = AsyncLimits(processing=invocation_timeout, queue=request_ttl)
        queue = AsyncOptions(wanted=wanted or detach, detach=detach, result=result, limits=limits)
        return command(queue=queue, **given)

    decorated: Any = with_queue
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]
