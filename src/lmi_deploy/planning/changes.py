"""The differences, field by field, between the current generation and the desired one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lmi_deploy.domain.environment_digests import without_values
from lmi_deploy.domain.plan import Change
from lmi_deploy.domain.record import Generation
from lmi_deploy.domain.spec import ProbeSpec, Spec

_SUMMARIZED = frozenset({"engine", "option.model_id", "option.entryPoint"})
"""Properties that other fields of the summary already represent."""


def changes(current: Generation | None, desired: Mapping[str, str]) -> tuple[Change, ...]:
    """By the summary in the record; empty text means absent."""
    before = without_values(current.summary) if current else {}
    return tuple(
        Change(field=key, before=str(before.get(key, "")), after=desired.get(key, ""))
        for key in {**desired, **before}
        if str(before.get(key, "")) != desired.get(key, "")
    )


def model_summary(spec: Spec) -> dict[str, str]:
    """The summary of any deployment's model and engine."""
    return {
        "model": spec.model.model_id,
        "commit": spec.model.commit,
        "engine": spec.engine.name,
        "task": spec.model.task or "",
        "handler": spec.engine.handler.entry_point,
        "template": spec.engine.handler.template or "",
        "tensor_parallel_degree": str(spec.engine.tensor_parallel_degree),
        "weights": spec.weights.selection,
    }


def probe_summary(spec: Spec) -> dict[str, str]:
    """The input of `probe_of`."""
    return {
        "probe": spec.probe.body,
        "probe_prompt": spec.probe.prompt,
        "probe_content_type": spec.probe.content_type,
        "probe_expect": spec.probe.expect,
    }


def probe_of(summary: Mapping[str, Any]) -> ProbeSpec | None:
    """The probe of a generation, by its record; None if the record has none."""
    if not summary.get("probe"):
        return None
    return ProbeSpec(
        prompt=str(summary.get("probe_prompt", "")),
        body=str(summary["probe"]),
        content_type=str(summary.get("probe_content_type", "application/json")),
        expect=str(summary.get("probe_expect", "")),
    )


def properties_summary(spec: Spec) -> dict[str, str]:
    return {key: value for key, value in spec.engine.properties if key not in _SUMMARIZED}
