"""An endpoint: AWS's own status, our tag, and the record."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lmi_deploy.domain.observed_state import CloudObserved
from lmi_deploy.domain.record import DeploymentStatus, Generation, Record, command_for
from lmi_deploy.domain.sagemaker.actions import CreateEndpoint, UpdateEndpoint
from lmi_deploy.domain.sagemaker.adapter_actions import (
    CreateAdapterComponent,
    DeleteAdapterComponent,
    UpdateAdapterComponent,
)
from lmi_deploy.domain.sagemaker.adoption_actions import AdoptResource
from lmi_deploy.domain.sagemaker.component_actions import (
    CreateInferenceComponent,
    UpdateInferenceComponent,
)
from lmi_deploy.domain.sagemaker.component_settings import ComponentSettings
from lmi_deploy.domain.sagemaker.resource_settings import SETTLING, ObservedEndpoint
from lmi_deploy.targets.sagemaker.lost_ownership_tag import missing_tag_text
from lmi_deploy.targets.sagemaker.plan.adapter_components import adapter_drift_words
from lmi_deploy.targets.sagemaker.plan.alarm_actions import alarm_drift_words
from lmi_deploy.targets.sagemaker.plan.deploy import target_endpoint_config
from lmi_deploy.targets.sagemaker.plan.instance_count import count_words
from lmi_deploy.targets.sagemaker.plan.scaling_drift import scaling_drift_words
from lmi_deploy.targets.sagemaker.plan.traffic import traffic_words
from lmi_deploy.targets.sagemaker.roles import ROLE_REMEDY

_COMPONENT_CHANGES: Final = (
    CreateInferenceComponent,
    UpdateInferenceComponent,
    CreateAdapterComponent,
    UpdateAdapterComponent,
    DeleteAdapterComponent,
)


def status_of(observed: CloudObserved) -> tuple[DeploymentStatus, str]:
    """The state, and the reason if it is not in sync."""
    if words := missing_tag_text(observed):
        return "drifted", words
    if observed.not_owned_reason:
        return "absent", observed.not_owned_reason
    if observed.sharing is not None and observed.endpoint is not None:
        return _of_shared_endpoint(observed.endpoint, observed.sharing)
    if observed.endpoint is not None:
        return _of_own_endpoint(observed, observed.endpoint)
    if not observed.exists:
        return "absent", f"no such deployment in {observed.ref.place}{other_location_text(observed)}"
    if running := [job for job in observed.jobs if job.is_running and job.purpose == "transfer"]:
        names = ", ".join(f"{job.name} is {job.status}" for job in running)
        return "starting", (
            f"it has no endpoint yet; the transfer job {names}; `lmi up` waits for it, `lmi down` stops it"
        )
    if observed.compile_jobs and not observed.record:
        names = ", ".join(f"{job.name} is {job.status}" for job in observed.compile_jobs)
        return "starting", (
            f"it has no endpoint yet; the compile job {names}; `lmi compile` waits for it, `lmi down` stops it"
        )
    if observed.record and observed.record.current:
        return "drifted", _deleted(observed.record.current, observed.ref.region)
    return "failed", "an `lmi up` did not finish; `lmi up` continues, `lmi down` deletes it"


def _of_own_endpoint(observed: CloudObserved, endpoint: ObservedEndpoint) -> tuple[DeploymentStatus, str]:
    if observed.record_damaged:
        return "drifted", f"its record {observed.record_damaged}; `lmi plan` says what to do"
    if observed.record_rebuilt:
        return "drifted", (
            f"{endpoint.config} serves, but its record is lost: its endpoint configs show what can be rolled back to; "
            "`lmi up` or `lmi rollback` writes the record again"
        )
    status, why = _of_endpoint(endpoint, observed.record)
    words = _drift_words(observed) if status == "in-step" else adapter_drift_words(observed)
    unchecked = observed.weights_unchecked_reason if status == "in-step" else ""
    why = f"its weights in place were not checked: {unchecked}" if unchecked else why
    return ("drifted", words) if words else (status, why)


def _deleted(current: Generation, region: str) -> str:
    rest = "`lmi up` creates it again, `lmi down` deletes the rest"
    component = current.serving.cloud.component
    if component is None:
        return f"its endpoint was deleted; {rest}"
    shared = command_for("status", component.place.endpoint, region)
    return f"it was deleted from the shared endpoint, which may cost: `{shared}`; {rest}"


def _of_shared_endpoint(endpoint: ObservedEndpoint, sharing: tuple[str, ...]) -> tuple[DeploymentStatus, str]:
    names = ", ".join(sharing) or "none; `lmi down` deletes it"
    words = f"a shared endpoint, {endpoint.status}; its models: {names}"
    return ("in-step" if endpoint.status == "InService" else "drifted"), words


def _drift_words(observed: CloudObserved) -> str:
    """What differs of a deployment that serves the recorded generation; empty if nothing does."""
    if observed.missing:
        return missing_words(observed)
    if observed.weights_missing_reason:
        return (
            f"it serves, but its weights in the bucket are incomplete: {observed.weights_missing_reason}; a new "
            "instance would fail to start; `lmi up` sends them again"
        )
    if observed.weights_changed_reason:
        return (
            f"it serves, but its weights in place changed since they were deployed: {observed.weights_changed_reason}; "
            "a new instance loads the changed objects; `lmi up` deploys them, or restore the verified version"
        )
    if observed.role_problem:
        return f"it serves, but no new instance would start: {observed.role_problem}. {ROLE_REMEDY}"
    return (
        count_words(observed)
        or traffic_words(observed)
        or scaling_drift_words(observed)
        or alarm_drift_words(observed)
    )


def other_location_text(observed: CloudObserved) -> str:
    """Other locations in which this machine deployed the same name, as the end of a sentence; empty if there are
    none.
    """
    places = "; ".join(ref.place for ref in observed.other_locations)
    return f"; this machine has deployed one in {places}" if places else ""


def _of_endpoint(endpoint: ObservedEndpoint, record: Record | None) -> tuple[DeploymentStatus, str]:
    why = f": {endpoint.reason}" if endpoint.reason else ""
    match endpoint.status:
        case "InService":
            return _in_service(endpoint, record)
        case "Creating":
            return "starting", "the endpoint is being created; `lmi wait` waits for it"
        case "Updating":
            to = f" to {endpoint.pending}" if endpoint.pending else ""
            return "starting", f"the endpoint is being updated{to}; {endpoint.config} still serves"
        case "SystemUpdating":
            status, _ = _in_service(endpoint, record)
            return status, "AWS is maintaining the endpoint; it still serves"
        case "RollingBack":
            return (
                "drifted",
                f"an update failed and is being rolled back to {endpoint.config}, which serves{why}",
            )
        case "OutOfService":
            return (
                "failed",
                f"the endpoint is out of service and does not answer; `lmi up` creates it again{why}",
            )
        case "Deleting":
            return "drifted", "the endpoint is being deleted"
        case "Failed":
            return "failed", f"the endpoint failed; `lmi up` creates it again, `lmi down` deletes it{why}"
        case "UpdateRollbackFailed":
            return "failed", (
                f"an update and its rollback failed: instances of both configs serve; `lmi up` updates it again{why}"
            )
        case other:
            return (
                "drifted",
                f"the endpoint has the status {other}, which this version of lmi does not know{why}",
            )


def unattended(observed: CloudObserved) -> str:
    """Why the deployment counts as abandoned, so that `lmi gc` may delete it; empty if it does not."""
    if observed.sharing == ():
        return "a shared endpoint without any model"
    if observed.endpoint is not None:
        return f"expired at {observed.expires}" if observed.expired else ""
    if running := [job for job in observed.jobs if job.is_running]:
        return f"no lmi waits for its {running[0].purpose} job {', '.join(job.name for job in running)}"
    if _was_deleted_by_schedule(observed):
        return "its endpoint was deleted when it expired"
    if observed.record or not observed.exists or _only_compiles(observed):
        return ""
    return "orphan of an interrupted run: no endpoint, no record"


def _only_compiles(observed: CloudObserved) -> bool:
    """An `lmi compile` may wait for the job, on any machine: it takes no lock, and the job ends by its time limit."""
    return not replace(observed, compile_jobs=()).exists


def _was_deleted_by_schedule(observed: CloudObserved) -> bool:
    """Of a deployment without its endpoint, and with no `up` or `down` that was interrupted."""
    record = observed.record
    current = record.current if record and record.coming is None and not record.intents else None
    return current is not None and bool(current.serving.cloud.scheduler_role) and observed.schedule is None


def missing_words(observed: CloudObserved) -> str:
    """The parts of the endpoint that were deleted under it; empty if all exist."""
    if not observed.missing:
        return ""
    parts = " and ".join(f"{kind.replace('-', ' ')} {name}" for kind, name in observed.missing)
    was = "were" if len(observed.missing) > 1 else "was"
    return (
        f"the {parts} {was} deleted, not by lmi; the endpoint still serves, but cannot be updated, scaled or "
        "repaired. `lmi up` with the deployed recipe creates what is missing"
    )


def fingerprint(observed: CloudObserved) -> list[object]:
    """The state that a plan depends on: without what changes by itself between two reads, or what AWS shows only
    later.
    """
    current = observed.record.current if observed.record else None
    config = target_endpoint_config(observed.endpoint) if observed.endpoint else ""
    by_hand = [] if observed.count_by_hand is None else [observed.count_by_hand]
    scaled = list(
        filter(None, (traffic_words(observed), scaling_drift_words(observed), alarm_drift_words(observed)))
    )
    return [current.server if current else "", config, observed.missing, *by_hand, *scaled]


def _in_service(endpoint: ObservedEndpoint, record: Record | None) -> tuple[DeploymentStatus, str]:
    if record is None:
        return "drifted", f"{endpoint.config} serves, but has no record; `lmi up` writes one"
    if record.current is None and any(record.started(AdoptResource)):
        return "drifted", "it serves, but its `lmi adopt --take` did not finish; run the same command again"
    if record.current is None:
        return "drifted", "it serves, but its `lmi up` did not finish; `lmi up` continues"
    if record.current.server != endpoint.config:
        # After an update that was rolled back AWS keeps reporting its reason.
        why = f" ({endpoint.reason})" if endpoint.reason else ""
        return "drifted", f"{endpoint.config} serves, but the record says {record.current.server}{why}"
    if why := failed_update_reason(endpoint, record):
        return "drifted", f"{why}; `lmi up` repairs it"
    return "in-step", ""


def update_submitted(record: Record, config: str) -> bool:
    """Whether the endpoint was switched to this config, and no generation was settled since."""
    if any(i.names.get("config") == config for i in record.started(CreateEndpoint, UpdateEndpoint)):
        return True
    # The settings of a component are those of the pending generation: an intent has no name for them.
    pending = record.coming
    is_component = pending is not None and pending.serving.cloud.component is not None
    return is_component and any(record.started(*_COMPONENT_CHANGES))


def failed_update_reason(endpoint: ObservedEndpoint, record: Record) -> str:
    """What the last `up` was deploying, and why it does not serve; empty if it does, or nothing was in progress."""
    pending = record.coming
    if pending is None or pending.server == endpoint.config or endpoint.status in SETTLING:
        return ""
    serves = f"{endpoint.config} serves"
    if record.current and _model(pending) == _model(record.current) is not None:
        return f"an `lmi up` to {pending.server} ended before its adapters were in service: {serves}"
    if not update_submitted(record, pending.server):
        return f"an `lmi up` to {pending.server} ended before it updated the endpoint: {serves}"
    return f"the update to {pending.server} was rolled back: {serves}" + (
        f" ({endpoint.reason})" * bool(endpoint.reason)
    )


def _model(generation: Generation) -> ComponentSettings | None:
    """Of a generation on a shared endpoint: the model without its adapters."""
    component = generation.serving.cloud.component
    return component.alone if component else None
