"""Target sagemaker: the teardown of a deployment."""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.domain.local_actions import RemoveDeployment
from lmi_deploy.domain.observed_state import CloudObserved
from lmi_deploy.domain.plan import Action, Plan
from lmi_deploy.domain.record import Record, command_for
from lmi_deploy.domain.sagemaker.actions import (
    DeleteAsyncRequests,
    DeleteEndpoint,
    DeleteEndpointConfig,
    DeleteLogs,
    DeleteModel,
    DeleteWeights,
    RemoveSchedule,
)
from lmi_deploy.domain.sagemaker.component_actions import DeleteInferenceComponent, DeleteSharedEndpoint
from lmi_deploy.domain.sagemaker.component_settings import SharedEndpoint
from lmi_deploy.domain.sagemaker.image_actions import DeleteRepository
from lmi_deploy.domain.sagemaker.job_actions import StopCompileJob, StopTransferJob
from lmi_deploy.domain.sagemaker.resource_settings import TAG
from lmi_deploy.domain.sagemaker.scaling_actions import RemoveScaling, SetScaling
from lmi_deploy.errors import NotOwned, Refused
from lmi_deploy.targets.sagemaker.plan.adapter_components import remove_adapters
from lmi_deploy.targets.sagemaker.plan.adoption import end_foreign_scaling
from lmi_deploy.targets.sagemaker.plan.alarm_actions import remove_alarms
from lmi_deploy.targets.sagemaker.plan.dashboard_actions import remove_dashboard
from lmi_deploy.targets.sagemaker.plan.image_actions import used_repository
from lmi_deploy.targets.sagemaker.plan.resource_actions import remove_artifacts, resource_names
from lmi_deploy.targets.sagemaker.status import other_location_text


def teardown(observed: CloudObserved, *, logs: bool = False, purge: tuple[str, ...] | None = None) -> Plan:
    """The endpoint first, because it costs money; then its other resources. Nothing without our tag is deleted.

    `purge` names weights that no other deployment uses, and requests that the image repository is deleted; with
    `logs` the containers' logs are deleted, too.
    """
    actions = tuple(_teardown_actions(observed))
    if logs and observed.log_group and not observed.not_owned_reason:
        actions += (DeleteLogs(group=observed.log_group),)
    actions += tuple(DeleteWeights(weights=name) for name in purge or ())
    if purge is not None and (repository := used_repository(observed)):
        actions += (DeleteRepository(repository=repository),)
    # The teardown itself is recorded: before anything is deleted, a record exists that says so.
    if observed.bucket and (actions or observed.record is not None):
        actions += (RemoveDeployment(name=observed.ref.name),)
    return Plan(deployment=observed.ref.name, actions=actions)


def _teardown_actions(observed: CloudObserved) -> Iterator[Action]:
    name = observed.ref.name
    yield from remove_dashboard(observed)
    yield from remove_alarms(observed)
    yield from (StopTransferJob(job=job.name) for job in observed.jobs)
    yield from (StopCompileJob(job=job.name, of=job.kind) for job in observed.compile_jobs)
    # Before the endpoint: its alarms would stay behind.
    if not observed.not_owned_reason and (observed.scaling is not None or _was_scaled(observed.record)):
        yield RemoveScaling(endpoint=name, of="component" if observed.shared else "variant")
    yield from remove_adapters(None, observed)
    serves = observed.endpoint is not None and not observed.not_owned_reason
    if observed.endpoint is not None and serves:
        yield from end_foreign_scaling(observed)
        shared = observed.endpoint.shared
        yield DeleteInferenceComponent(component=name) if shared else DeleteEndpoint(endpoint=name)
    # Its other models may be deleted at the same moment: the action decides, once this model is gone.
    if (place := observed.shared) and _is_ours(place) and (serves or not place.others(name)):
        yield DeleteSharedEndpoint(endpoint=place.name, configs=place.configs)
    if observed.schedule is not None and not observed.not_owned_reason:
        yield RemoveSchedule(endpoint=name)
    yield from (
        DeleteEndpointConfig(config=one) for one in sorted(resource_names(observed, "endpoint-config"))
    )
    yield from (DeleteModel(model=one) for one in sorted(resource_names(observed, "model")))
    yield from remove_artifacts({*observed.artifacts, *observed.incomplete_artifacts}, observed)
    if observed.bucket and _was_asynchronous(observed):
        yield DeleteAsyncRequests(endpoint=name)


def _is_ours(shared: SharedEndpoint) -> bool:
    """Whether any of it exists, and is lmi's."""
    return (shared.endpoint is not None or bool(shared.configs)) and not shared.not_owned_reason


def _was_asynchronous(observed: CloudObserved) -> bool:
    """Whether any object of asynchronous requests may be in the bucket."""
    serves = observed.config is not None and observed.config.settings.asynchronous is not None
    recorded = observed.record.known if observed.record else ()
    return serves or any(generation.serving.cloud.async_output for generation in recorded)


def _was_scaled(record: Record | None) -> bool:
    """Whether any scaling resource may still exist: a policy without its target cannot be observed."""
    if record is None:
        return False
    started = any(record.started(SetScaling, RemoveScaling))
    return started or any(g.serving.cloud.scaling for g in record.generations)


def require_unshared(observed: CloudObserved) -> None:
    """Refuse to delete an endpoint under the models on it."""
    if observed.sharing:
        names = observed.sharing
        raise Refused(
            f"{observed.ref.name}: it is a shared endpoint with {', '.join(names)}",
            hint="nothing was deleted. End each of them; the last one ends the endpoint: "
            + "; ".join(command_for("down", name, observed.ref.region) for name in names),
        )


def weights_named(observed: CloudObserved) -> tuple[str, ...]:
    """The weights of a deployment, current or pending."""
    return observed.record.weights if observed.record and observed.bucket else ()


def kept(observed: CloudObserved, plan: Plan, *, region: str) -> tuple[str, ...]:
    """What a teardown leaves alone, and why. Refused if no part of it is here: then it is not owned by lmi, or it is
    in another account or region. `region` is what the user named.
    """
    if observed.not_owned_reason and plan.empty:
        raise NotOwned(observed.not_owned_reason, hint="it was not changed")
    foreign = (f"{observed.not_owned_reason}; lmi does not change it",) if observed.not_owned_reason else ()
    misnamed = (
        f"{resource.kind.replace('-', ' ')} {resource.name}: it has the tag {TAG} of {observed.ref.name}, but not a "
        "name that lmi gives; lmi does not delete it"
        for resource in observed.misnamed
    )
    repository = used_repository(observed)
    images = (
        (f"{repository} stays in ECR, with the images that lmi built; --purge deletes it",)
        if repository and not plan.has_action(DeleteRepository)
        else ()
    )
    shared = tuple(_shared_notices(observed))
    return (
        *foreign,
        *misnamed,
        *images,
        *shared,
        *_adopted_notices(observed, plan),
        *(_other_location_notices(observed, region) if plan.empty else ()),
    )


def _adopted_notices(observed: CloudObserved, plan: Plan) -> Iterator[str]:
    """Of an adopted endpoint: config and model that it shared with others were never lmi's."""
    deleted = {action.config for action in plan.actions if isinstance(action, DeleteEndpointConfig)}
    for generation in observed.record.generations if observed.record else ():
        if not generation.artifact and generation.server not in deleted:
            yield (
                f"the endpoint config {generation.server} and its model {generation.serving.cloud.model} stay, and "
                "cost nothing: others use them"
            )


def _shared_notices(observed: CloudObserved) -> Iterator[str]:
    shared = observed.shared
    if shared is None or shared.endpoint is None:
        return
    if shared.not_owned_reason:
        yield f"{shared.not_owned_reason}; lmi does not change it"
    elif others := [each.name for each in shared.others(observed.ref.name)]:
        verb = "use" if len(others) > 1 else "uses"
        yield f"the shared endpoint {shared.name} stays, and costs, as long as {', '.join(others)} {verb} it"


def _other_location_notices(observed: CloudObserved, region: str) -> Iterator[str]:
    """Nothing exists here, but this machine knows a deployment of that name in another place.

    Refused if the user may mean that one: in another account, or in another region than a default.
    """
    if not observed.other_locations:
        return
    name = observed.ref.name
    words = f"{name}: not found in {observed.ref.place}{other_location_text(observed)}"
    if not region or any(other.region == observed.ref.region for other in observed.other_locations):
        raise Refused(
            words,
            hint="nothing was deleted. Use the credentials of that account (AWS_PROFILE), or name the region: "
            f"{observed.other_locations[0].command('down')}",
        )
    yield words
