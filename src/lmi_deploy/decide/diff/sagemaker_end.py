"""Target sagemaker: a deployment taken away, and one that goes back to what it was."""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.core.cloud_actions import (
    AwaitService,
    DeleteEndpoint,
    DeleteEndpointConfig,
    DeleteLogs,
    DeleteModel,
    DeleteWeights,
    ProbeEndpoint,
    RemoveScaling,
    SetExpiry,
    SetScaling,
    StopTransferJob,
    TagEndpoint,
    UntagEndpoint,
    UpdateEndpoint,
)
from lmi_deploy.core.cloud_tags import told_tags
from lmi_deploy.core.frozen_json import load
from lmi_deploy.core.hosting import SETTLING, TAG_SPEC, TAG_WEIGHTS, SeenEndpoint
from lmi_deploy.core.observed import CloudObserved
from lmi_deploy.core.plan import Action, Plan, RemoveArtifact, RemoveDeployment
from lmi_deploy.core.recipe import Pairs
from lmi_deploy.core.record import Generation, Record
from lmi_deploy.core.scaling_words import SCALING, scaling_of
from lmi_deploy.decide.cloud_wanted import PROVISION
from lmi_deploy.decide.diff.changes import changes, probe_of
from lmi_deploy.decide.diff.sagemaker import coming as coming_config
from lmi_deploy.decide.diff.sagemaker_earlier import chosen_generation
from lmi_deploy.decide.diff.sagemaker_parts import named
from lmi_deploy.decide.diff.sagemaker_tags import tagging
from lmi_deploy.decide.diff.sagemaker_told import PATIENCE
from lmi_deploy.errors import Refused


def teardown(observed: CloudObserved, *, logs: bool = False, purge: tuple[str, ...] = ()) -> Plan:
    """The endpoint first, which costs money; then what only it needed. Nothing that does not carry our tag.

    `purge` names weights that nobody else uses; with `logs` what the containers printed goes, too.
    """
    actions = tuple(_ending(observed))
    if logs and observed.log_group and not observed.stranger:
        actions += (DeleteLogs(group=observed.log_group),)
    actions += tuple(DeleteWeights(weights=name) for name in purge)
    # Taking away is itself recorded: whatever is done, a record is there by its end.
    if observed.bucket and (actions or observed.record is not None):
        actions += (RemoveDeployment(name=observed.ref.name),)
    return Plan(deployment=observed.ref.name, actions=actions)


def _ending(observed: CloudObserved) -> Iterator[Action]:
    name = observed.ref.name
    yield from (StopTransferJob(job=job.name) for job in observed.jobs)
    # Before the endpoint: its alarms would stay behind.
    if not observed.stranger and (observed.scaling is not None or _was_scaled(observed.record)):
        yield RemoveScaling(endpoint=name)
    if observed.endpoint is not None and not observed.stranger:
        yield DeleteEndpoint(endpoint=name)
    yield from (DeleteEndpointConfig(config=one) for one in sorted(named(observed, "endpoint-config")))
    yield from (DeleteModel(model=one) for one in sorted(named(observed, "model")))
    yield from (RemoveArtifact(artifact=one) for one in sorted((*observed.artifacts, *observed.torn)))


def _was_scaled(record: Record | None) -> bool:
    """Whether anything of scaling may be there still: a policy without its target is not seen."""
    if record is None:
        return False
    begun = {intent.action for intent in record.intents} & {SetScaling.__name__, RemoveScaling.__name__}
    return bool(begun) or any(generation.summary.get(SCALING) for generation in record.generations)


def waiting(observed: CloudObserved, *, timeout: int | None) -> tuple[Plan, Generation | None]:
    """What the record says was begun and did not end, from the wait for service on."""
    record, endpoint, name = observed.record, observed.endpoint, observed.ref.name
    coming = record.coming if record else None
    if endpoint is None or observed.stranger or not _under_way(record, endpoint):
        return Plan(deployment=name, actions=()), None
    config = coming.server if coming else coming_config(endpoint)
    patience = timeout or int(coming.summary.get(PATIENCE, 0) if coming else 0) or 2 * PROVISION
    actions: list[Action] = [AwaitService(endpoint=name, config=config, timeout=patience)]
    probe = probe_of(coming.summary) if coming else None
    if probe:
        actions.append(ProbeEndpoint(endpoint=name, probe=probe))
    actions += _begun(record)
    return Plan(deployment=name, actions=tuple(actions)), coming


def _under_way(record: Record | None, endpoint: SeenEndpoint) -> bool:
    """Whether the endpoint changes by itself, or an `up` sent it on its way and did not see it arrive."""
    if endpoint.status in SETTLING:
        return True
    coming = record.coming if record else None
    if record is None or coming is None:
        return False
    return endpoint.config == coming.server or record.sent(coming.server)


def _begun(record: Record | None) -> Iterator[Action]:
    """The small things at the end of an `up`, as its intents name them."""
    for intent in record.intents if record else ():
        if intent.outcome is not None:
            continue
        match intent.action:
            case "SetScaling":
                yield load(SetScaling, intent.names)
            case "RemoveScaling":
                yield load(RemoveScaling, intent.names)
            case "TagEndpoint":
                yield load(TagEndpoint, intent.names)
            case "SetExpiry":
                yield load(SetExpiry, intent.names)
            case "UntagEndpoint":
                yield load(UntagEndpoint, intent.names)
            case _:
                pass


def weights_named(record: Record | None) -> tuple[str, ...]:
    """The weights that a deployment uses, or was about to bring."""
    if record is None:
        return ()
    known = (*record.generations, *((record.coming,) if record.coming else ()))
    kept = (str(generation.summary.get("weights_name", "")) for generation in known)
    begun = (str(intent.names.get("weights", "")) for intent in record.intents)
    return tuple(sorted({name for name in (*kept, *begun) if name}))


def rollback(observed: CloudObserved, to: int | str = 0) -> tuple[Plan, Generation]:
    """One update to the config of an earlier generation, as `chosen_generation` has it.

    NotFound where there is none; Refused where the endpoint cannot be updated now.
    """
    if observed.stranger:
        raise Refused(observed.stranger, hint="nothing was changed")
    previous = chosen_generation(observed, to)
    name, endpoint = observed.ref.name, observed.endpoint
    assert observed.record is not None
    begun = endpoint is not None and previous.server in (endpoint.config, endpoint.pending)
    if endpoint is None or not (begun or endpoint.status in ("InService", "UpdateRollbackFailed")):
        raise Refused(
            f"{name}: its endpoint is {endpoint.status if endpoint else 'gone'}, and cannot be updated now",
            hint="`lmi status` says more; `lmi up` brings a deployment back",
        )
    probe = probe_of(previous.summary)
    current = observed.record.current
    was, becomes = scaling_of(current.summary if current else {}), scaling_of(previous.summary)
    # SageMaker changes no instance type under a scalable target.
    moved = current is not None and current.instance != previous.instance
    update = UpdateEndpoint(
        endpoint=name, config=previous.server, keep_count=bool(was and becomes and not moved)
    )
    actions: tuple[Action, ...] = (
        *((RemoveScaling(endpoint=name),) if was and (moved or not becomes) else ()),
        *(() if begun else (update,)),
        AwaitService(
            endpoint=name,
            config=previous.server,
            timeout=int(previous.summary.get(PATIENCE, 0)) or 2 * PROVISION,
        ),
        *((ProbeEndpoint(endpoint=name, probe=probe),) if probe else ()),
        *((SetScaling(endpoint=name, scaling=becomes),) if becomes and (moved or was != becomes) else ()),
        *tagging(observed, _tags(previous)),
    )
    told = changes(observed.record.current, {key: str(text) for key, text in previous.summary.items()})
    return Plan(deployment=name, actions=actions, changes=told), previous


def _tags(previous: Generation) -> Pairs:
    weights = str(previous.summary.get("weights_name", ""))
    ours = ((TAG_SPEC, previous.spec), *(((TAG_WEIGHTS, weights),) if weights else ()))
    return (*ours, *told_tags(previous.summary))
