"""`lmi invoke`."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lmi_deploy.api.deployment_lookup import TargetOptions, find_deployment, known, ref_fields
from lmi_deploy.cli.async_invocation import AsyncOptions, async_options
from lmi_deploy.cli.context import CommandContext, open_context
from lmi_deploy.cli.shared_options import (
    json_option,
    name_argument,
    place_options,
    request_options,
)
from lmi_deploy.domain.deployment_names import name_error
from lmi_deploy.domain.inference_http import InferenceRequest, read_image
from lmi_deploy.domain.number_text import seconds_text
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.sagemaker.resource_settings import CANDIDATE, VARIANT
from lmi_deploy.errors import LmiError, NotFound, UsageRefused
from lmi_deploy.workflows.awaiting_copies import CopyWait
from lmi_deploy.workflows.invoke import OnlyAsynchronous, ResponseMetrics, invoke, invoke_raw
from lmi_deploy.workflows.list_deployments import is_aws_reachable

if TYPE_CHECKING:
    from lmi_deploy.workflows.dependencies import Dependencies


@click.command("invoke")
@name_argument
@click.argument("prompt", required=False)
@click.option(
    "--file", "file", type=click.Path(dir_okay=False), help="Read the prompt from a file; - reads stdin."
)
@click.option("--body", help="Send this request body unchanged; @FILE reads it from a file.")
@click.option("--content-type", default="application/json", show_default=True, help="Content type of --body.")
@click.option(
    "--image",
    "images",
    multiple=True,
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Send this PNG, JPEG or WebP file with the prompt, to a vision model; can be repeated.",
)
@click.option("--plain", is_flag=True, help="Let the model continue the prompt, without a chat template.")
@click.option(
    "--stream/--no-stream", default=None, help="Print tokens as they arrive; the default on a terminal."
)
@request_options
@click.option(
    "--variant",
    type=click.Choice((VARIANT, CANDIDATE)),
    help="Of an endpoint with a candidate: the version that answers.  [default: either, by their shares]",
)
@async_options
@click.option("--raw", is_flag=True, help="Print only the response body, unchanged.")
@click.option(
    "--timeout", default=120.0, show_default=True, help="Stop after this many seconds without data."
)
@click.option(
    "--copy-timeout",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="If the model has scaled to zero copies: how long to wait for one; 0: do not wait.  [default: as `lmi up`]",
)
@place_options
@json_option
def command(
    *,
    name: str | None,
    prompt: str | None,
    where: TargetOptions,
    as_json: bool,
    raw: bool,
    timeout: float,
    copy_timeout: float | None,
    queue: AsyncOptions,
    **prompt_flags: Any,
) -> int:
    """Send PROMPT (argument, --file or stdin) to the deployment NAME, and stream the response.

    A request to an asynchronous endpoint (`endpoint.asynchronous`) goes through S3, may take an hour and have 1 GB.
    A model on a shared endpoint may have scaled to zero copies: the request starts one, and is sent again then.

    The response is printed to stdout; latency, time to the first token and tokens/s to stderr.

    A request to SageMaker can have at most 6 MiB; a request to a server on this machine, 64 MiB. An image takes 4/3 of
    the size of its file (base64).
    """
    if raw and as_json:
        raise UsageRefused(
            "--raw and --json cannot be combined",
            hint="use --raw for the unchanged body, --json for JSON Lines",
        )
    context = open_context(as_json=as_json)
    if queue.result is not None:
        new = prompt is not None or any(prompt_flags[key] for key in ("file", "body", "images"))
        queue.require_result_alone(new=new)
        return queue.fetch(find_deployment(name, context.deps, where), context, raw=raw)
    has_text = any(prompt_flags[key] is not None for key in ("file", "body"))
    ref, prompt = _who(name, prompt, context, where, has_text=has_text)
    request = _read_request(prompt, stream_default=sys.stdout.isatty() or as_json, **prompt_flags)
    queue.require_whole(stream=bool(prompt_flags["stream"]))
    try:
        if not queue.wanted:
            _send(ref, request, context, timeout=timeout, copy_timeout=copy_timeout, raw=raw)
            return 0
    except OnlyAsynchronous:
        replace(queue, wanted=True).require_whole(stream=bool(prompt_flags["stream"]))
    return queue.send(ref, request, context, raw=raw)


def _send(
    ref: DeploymentRef,
    request: InferenceRequest,
    context: CommandContext,
    *,
    timeout: float,
    copy_timeout: float | None,
    raw: bool,
) -> None:
    wait = CopyWait(show=context.view.show, done=context.view.close, limit=copy_timeout)
    if not raw:
        _print_response(ref, request, context, timeout, wait)
        return
    for chunk in invoke_raw(ref, request, context.deps, timeout=timeout, wait=wait):
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()


def _who(
    name: str | None, prompt: str | None, context: CommandContext, where: TargetOptions, *, has_text: bool
) -> tuple[DeploymentRef, str | None]:
    """`lmi invoke "Hello"`: an argument alone is a deployment's name if there is one, here or in AWS, or if the prompt
    comes from elsewhere; else it is the prompt for the only deployment.
    """
    deps = context.deps
    names = {ref.name for ref in known(deps, where)}
    named = where.target or where.region or name in names or (name or "").endswith((".yaml", ".yml"))
    if name is not None and prompt is None and not named and not has_text:
        may_be_name = not name_error(name)
        if len(names) == 1 and not (may_be_name and (_is_deployed(name, deps) or _has_piped_text())):
            only = find_deployment(None, deps, where)
            if may_be_name:
                context.view.note(f"{name}: no deployment has this name: it is the prompt for {only.name}")
            return only, name
        if name_error(name):
            raise NotFound(
                f"{name}: no such deployment on this machine", hint="`lmi ls` lists the deployments"
            )
    return find_deployment(name, context.deps, where), prompt


def _is_deployed(name: str, deps: Dependencies) -> bool:
    """Whether AWS has it. Where it cannot be asked, the endpoint of this machine still takes a prompt."""
    if not is_aws_reachable(deps):
        return False
    target = deps.targets["sagemaker"]
    try:
        observed = target.observe(DeploymentRef(name=name, target="sagemaker"))
    except LmiError:
        return False
    return target.status_of(observed)[0] != "absent"


def _has_piped_text() -> bool:
    """Whether stdin is a pipe, or a file with content."""
    try:
        found = os.fstat(sys.stdin.fileno())
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_size > 0)


def _read_request(
    prompt: str | None,
    *,
    file: str | None,
    body: str | None,
    content_type: str,
    images: Sequence[str],
    plain: bool,
    stream: bool | None,
    stream_default: bool,
    adapter: str,
    variant: str | None,
    **chosen: Any,
) -> InferenceRequest:
    given = [
        word for word, value in (("PROMPT", prompt), ("--file", file), ("--body", body)) if value is not None
    ]
    given += ["--image"] if images and body is not None else []
    if len(given) > 1:
        raise UsageRefused(f"{' and '.join(given)} cannot be combined", hint="lmi invoke --help")
    if images and plain:
        raise UsageRefused(
            "--image and --plain cannot be combined", hint="only a chat has images: omit --plain"
        )
    if body is not None:
        raw = _bytes(body[1:]) if body.startswith("@") else body.encode()
        # The body decides, except that only `--stream` requests a stream.
        return InferenceRequest(
            body=raw, content_type=content_type, adapter=adapter, variant=variant or "", stream=bool(stream)
        )
    text = prompt if prompt is not None else _bytes(file or "-").decode("utf-8", "replace")
    if not text.strip():
        raise UsageRefused("the prompt is empty", hint='lmi invoke NAME "your question"')
    # Some servers ignore the adapter in a stream.
    streamed = (stream_default and not adapter) if stream is None else stream
    files = tuple(read_image(_bytes(path), path) for path in images)
    return InferenceRequest(
        prompt=text,
        images=files,
        adapter=adapter,
        variant=variant or "",
        chat=not plain,
        stream=streamed,
        **chosen,
    )


def _bytes(path: str) -> bytes:
    if path == "-":
        if sys.stdin.isatty():
            raise UsageRefused("no prompt given", hint='lmi invoke NAME "your question", --file, or a pipe')
        return sys.stdin.buffer.read()
    try:
        return Path(path).read_bytes()
    except OSError as reason:
        raise NotFound(f"{path}: {reason.strerror}", hint="name a file that you may read") from None


def _print_response(
    ref: DeploymentRef,
    request: InferenceRequest,
    context: CommandContext,
    timeout: float,
    wait: CopyWait,
) -> None:
    measured, parts = ResponseMetrics(), []
    for chunk in invoke(ref, request, context.deps, measured, timeout=timeout, wait=wait):
        if chunk.text:
            parts.append(chunk.text)
            context.view.chunk(chunk.text)
    text = "".join(parts)
    if not text.endswith("\n"):
        context.view.end_of_response()
    context.view.note(_figures(measured, streamed=request.stream))
    context.view.result({**ref_fields(ref), "answer": text, **_measures(measured)})


def _measures(measured: ResponseMetrics) -> dict[str, Any]:
    rate = measured.tokens_per_second
    return {
        "seconds": round(measured.total_seconds, 4),
        "first_token_seconds": round(measured.first_chunk_seconds, 4)
        if measured.first_chunk_seconds is not None
        else None,
        "tokens": measured.tokens,
        "tokens_per_second": round(rate, 2) if rate else None,
        "finish": measured.finish,
    }


def _figures(measured: ResponseMetrics, *, streamed: bool) -> str:
    parts = [f"{seconds_text(measured.total_seconds)} in total"]
    if streamed and measured.first_chunk_seconds is not None:
        parts.append(f"first token after {seconds_text(measured.first_chunk_seconds)}")
    if measured.tokens:
        parts.append(f"{measured.tokens} tokens")
    if streamed and measured.tokens_per_second:
        parts.append(f"{measured.tokens_per_second:.1f} tokens/s")
    if measured.finish == "length":
        parts.append("cut at the token limit (-p max_tokens=N)")
    return "[" + ", ".join(parts) + "]"
