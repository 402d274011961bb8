"""The share of the requests that a candidate answers: set after its probe, and again when it differs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.observed_state import CloudObserved
from lmi_deploy.domain.plan import Change
from lmi_deploy.domain.recipe_endpoint_keys import UpdatePolicy
from lmi_deploy.domain.record import Generation
from lmi_deploy.domain.sagemaker.actions import ProbeEndpoint
from lmi_deploy.domain.sagemaker.resource_settings import SETTLING, ObservedEndpoint
from lmi_deploy.domain.sagemaker.scaling_actions import SetTraffic
from lmi_deploy.targets.sagemaker.desired_state import PROVISION, wait_timeout

_FIELD = "candidate"
Kind = Literal["", "weighted", "shadow"]


def traffic_action(spec: Spec, observed: CloudObserved, *, updated: bool) -> Iterator[SetTraffic]:
    """`updated`: the plan starts a config, whose candidate begins without traffic."""
    candidate, endpoint = spec.candidate, observed.endpoint
    if candidate is None or candidate.shadow:
        return
    live = endpoint.candidate if endpoint else None
    starts = updated or live is None or endpoint is None or endpoint.status in SETTLING
    percent = 0 if starts or live is None else live.percent
    if percent != candidate.percent:
        yield SetTraffic(endpoint=spec.name, percent=candidate.percent, timeout=wait_timeout(spec))


def recorded_traffic(generation: Generation, endpoint: str) -> tuple[SetTraffic, ...]:
    """The same for a recorded generation, whose config begins without traffic."""
    candidate = generation.serving.candidate
    if candidate is None or candidate.shadow or not candidate.percent:
        return ()
    timeout = generation.serving.cloud.wait_timeout or 2 * PROVISION
    return (SetTraffic(endpoint=endpoint, percent=candidate.percent, timeout=timeout),)


def recorded_probe(generation: Generation, endpoint: str, shared: str = "") -> tuple[ProbeEndpoint, ...]:
    """Of a recorded generation; nothing if it was recorded by an lmi that sent none."""
    serving, candidate = generation.serving, generation.serving.candidate
    if serving.probe is None:
        return ()
    probe = ProbeEndpoint(
        endpoint=endpoint,
        probe=serving.probe,
        asynchronous=bool(serving.cloud.async_output),
        shared=shared,
        candidate=candidate.serving.probe if candidate and not candidate.shadow else None,
        shadow=candidate is not None and candidate.shadow,
    )
    return (probe,)


def update_policy(spec: Spec, observed: CloudObserved) -> UpdatePolicy | None:
    """None, which means all at once, where a candidate comes or goes: "your new endpoint configuration must have the
    same variant name as the old endpoint configuration" (SageMaker developer guide, "Exclusions").
    """
    endpoint, candidate = observed.endpoint, spec.candidate
    becomes: Kind = "" if candidate is None else "shadow" if candidate.shadow else "weighted"
    return spec.cloud.update if endpoint is None or _kind(endpoint) == becomes else None


def _kind(endpoint: ObservedEndpoint) -> Kind:
    candidate = endpoint.candidate
    return "" if candidate is None else "shadow" if candidate.shadow else "weighted"


def traffic_words(observed: CloudObserved) -> str:
    """A share that is not the recorded one, as a sentence; empty if it is."""
    live, recorded = _shares(observed)
    if live == recorded:
        return ""
    return (
        f"its candidate answers {live} % of the requests (another tool, or an `lmi up` that did not finish); the "
        f"recipe of the last `lmi up` says {recorded} %, and the next one sets it again"
    )


def traffic_changes(changes: tuple[Change, ...], observed: CloudObserved) -> tuple[Change, ...]:
    """With the share that is live instead of the recorded one, where the record alone shows no change."""
    live, recorded = _shares(observed)
    if live == recorded or any(change.field == _FIELD for change in changes):
        return changes
    words = "answers {} % of the requests"
    return (
        *changes,
        Change(field=_FIELD, before=words.format(live), after=words.format(recorded)),
    )


def _shares(observed: CloudObserved) -> tuple[int, int]:
    """Live and recorded; the same if the endpoint is changing, or serves another generation."""
    endpoint, current = observed.endpoint, observed.record.current if observed.record else None
    recorded = current.serving.candidate if current else None
    if endpoint is None or current is None or recorded is None or recorded.shadow:
        return 0, 0
    if endpoint.candidate is None or endpoint.config != current.server or endpoint.pending:
        return 0, 0
    return endpoint.candidate.percent, recorded.percent
