"""The instance types that a deployment runs on, by what was observed."""

from __future__ import annotations

from lmi_deploy.domain.observed_state import CloudObserved
from lmi_deploy.domain.record import Generation
from lmi_deploy.domain.sagemaker.resource_settings import COSTS_NOTHING, ObservedEndpoint


def deployed_instance(observed: CloudObserved) -> str:
    """The deployment's instance type: by its instance pools the one that most of its instances have, else by the
    current config, else by the record: of that config's generation, else of the last one. Empty if it is unknown.
    """
    if observed.endpoint is not None and (running := observed.endpoint.running_types):
        return running[0][0]
    if observed.config is not None and observed.config.settings.instance:
        return observed.config.settings.instance
    found = _generation(observed)
    return found.instance if found else ""


def _candidate_instance(observed: CloudObserved) -> str:
    if observed.config is not None and observed.config.settings.candidate is not None:
        return observed.config.settings.candidate.instance
    found = _generation(observed)
    candidate = found.serving.candidate if found else None
    return candidate.instance if candidate else ""


def candidate_instances(observed: CloudObserved) -> tuple[str, int] | None:
    """The type and number of its candidate's instances; the type is empty if it is unknown. None without one."""
    candidate = observed.endpoint.candidate if observed.endpoint else None
    if candidate is None:
        return None
    return _candidate_instance(observed), max(candidate.count, candidate.desired_count, 1)


def running_instances(observed: CloudObserved) -> tuple[tuple[str, int], ...]:
    """The types and numbers of its instances, those of a candidate last; empty if nothing of its own is billed."""
    endpoint, instance = observed.endpoint, deployed_instance(observed)
    if endpoint is None or endpoint.status in COSTS_NOTHING or not instance or endpoint.shared:
        return ()
    candidate = candidate_instances(observed)
    return (*main_instances(endpoint, instance), *([candidate] if candidate else []))


def main_instances(endpoint: ObservedEndpoint, instance: str) -> tuple[tuple[str, int], ...]:
    """Without those of a candidate."""
    if running := endpoint.running_types:
        return running
    # One that serves may have scaled to zero; one that is created does not show its instances yet.
    least = 0 if endpoint.status == "InService" else 1
    return ((instance, max(endpoint.count, endpoint.desired_count, least)),)


def _generation(observed: CloudObserved) -> Generation | None:
    record, endpoint = observed.record, observed.endpoint
    known, serving = record.known if record else (), endpoint.config if endpoint else ""
    return next((g for g in reversed(known) if g.server == serving), known[-1] if known else None)
