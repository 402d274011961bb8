"""The requests of a rehearsal: whole, streamed, and those that must be refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.inference_http import Chunk, HttpRequest, InferenceRequest, ResponseHead
from lmi_deploy.domain.number_text import seconds_text
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.engines.registry import ENGINES
from lmi_deploy.errors import DeployFailed, UsageRefused
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.invoke import ResponseMetrics, invoke

_OF_A_DEPLOYMENT: Final = ("`lmi up`", "`lmi down`", "`lmi status`", "`lmi logs", " cost")
BAD_BODIES: Final = (("not JSON", b'{"inputs": '), ("no input", b"{}"), ("a wrong type", b'{"inputs": 7}'))
_TIMEOUT: Final = 120.0


def probe_request(spec: Spec) -> InferenceRequest:
    """The request that `up` sends at its end."""
    probe = spec.probe
    return InferenceRequest(prompt=probe.prompt, body=probe.body.encode(), content_type=probe.content_type)


def answer_of(
    ref: DeploymentRef, request: InferenceRequest, deps: Dependencies
) -> tuple[list[Chunk], ResponseMetrics]:
    """DeployFailed if the response is an error, or empty."""
    measured = ResponseMetrics()
    chunks = list(invoke(ref, request, deps, measured, timeout=_TIMEOUT))
    if not "".join(chunk.text for chunk in chunks).strip():
        raise DeployFailed("the response is empty", hint="check the handler")
    return chunks, measured


def streamed_outcome(ref: DeploymentRef, spec: Spec, deps: Dependencies) -> str:
    """The result of a streamed request, or why there is none."""
    module, handler, task = ENGINES[spec.engine.name], spec.engine.handler, spec.model.task
    request = module.probe(handler, task)
    if task not in ("text-generation", "text2text-generation") or request is None:
        return f"not offered for task {task or 'unknown'}"
    try:
        chunks, measured = answer_of(ref, replace(request, stream=True), deps)
    except UsageRefused as refused:
        return f"not offered: {refused.message}"
    first = seconds_text(measured.first_chunk_seconds or 0.0)
    return f"{sum(1 for chunk in chunks if chunk.text)} pieces, the first after {first}"


def status_of_body(ref: DeploymentRef, body: bytes, deps: Dependencies) -> str:
    """The status of the response to an invalid body; DeployFailed if there is none in time."""
    request = HttpRequest(body=body, headers=(("Content-Type", "application/json"),))
    response = deps.targets[ref.target].invoke(ref, request, timeout=_TIMEOUT)
    head = next(response)
    assert isinstance(head, ResponseHead)
    for _ in response:
        pass
    return str(head.status)


def outcome_of(chunks: list[Chunk]) -> str:
    """An answer in a few words: its text means nothing."""
    text = "".join(chunk.text for chunk in chunks)
    tokens = sum(chunk.tokens for chunk in chunks)
    return f"answered, {f'{tokens} tokens, ' if tokens else ''}{len(text)} characters"


def rehearsal_hint(hint: str) -> str:
    """Without what would be next for a real deployment."""
    parts = [part for part in hint.split("; ") if not any(word in part for word in _OF_A_DEPLOYMENT)]
    return "; ".join([*parts, "correct the recipe and rehearse it again; nothing was paid for"])
