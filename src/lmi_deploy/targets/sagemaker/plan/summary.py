"""What is shown of a deployment on SageMaker before the user agrees, and what its record has of it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from lmi_deploy.catalog.instances import instance
from lmi_deploy.domain.currency import format_price
from lmi_deploy.domain.dearest_type import dearest_type
from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.number_text import counted, seconds_text, size_text
from lmi_deploy.domain.observed_state import CloudInventory, CloudObserved
from lmi_deploy.domain.plan import Estimate, Plan
from lmi_deploy.domain.recipe_endpoint_keys import UpdatePolicy
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.record import Generation
from lmi_deploy.domain.sagemaker.actions import AwaitService, CreateEndpoint, UpdateEndpoint
from lmi_deploy.domain.sagemaker.resource_settings import Placement
from lmi_deploy.domain.sagemaker.s3_layout import artifact_id, stored_weights_of
from lmi_deploy.domain.sagemaker.tags import spec_digest
from lmi_deploy.domain.serving_record import CandidateServing, SageMakerServing, ServingRecord
from lmi_deploy.domain.target_spec import SageMakerPlace
from lmi_deploy.planning.additional_models import additional_figures
from lmi_deploy.planning.default_timeouts import careful_start, whole_minutes
from lmi_deploy.planning.serving_changes import serving_record
from lmi_deploy.targets.sagemaker.costs import UNKNOWN_PRICE, candidate_figures, cost_of, cost_words, job_cost
from lmi_deploy.targets.sagemaker.deployed_instance import running_instances
from lmi_deploy.targets.sagemaker.desired_state import (
    DesiredState,
    desired_state,
    update_seconds,
    wait_timeout,
)
from lmi_deploy.targets.sagemaker.plan.image_actions import image_figures
from lmi_deploy.targets.sagemaker.plan.storage_actions import transfer_job_place
from lmi_deploy.targets.sagemaker.transfer_job.resolve import JOB_BYTES_PER_SECOND


def serving(spec: Spec, artifact: Artifact, desired: DesiredState | None = None) -> ServingRecord:
    """What later commands know of the generation; from the desired state, if that is known already."""
    cloud, wanted = spec.cloud, desired or desired_state(spec, artifact)
    place = SageMakerServing(
        model=wanted.model,
        region=cloud.region,
        image=cloud.image,
        placements=cloud.placements,
        count=cloud.count,
        delivery=cloud.delivery,
        role=cloud.role,
        model_download=cloud.model_download,
        container_startup=cloud.startup_timeout,
        wait_timeout=wait_timeout(spec),
        kms_key=cloud.kms_key,
        network_isolation=cloud.network_isolation,
        vpc=cloud.vpc,
        scaling=cloud.scaling,
        scheduler_role=cloud.scheduler_role,
        async_output=(cloud.asynchronous.output or "") if cloud.asynchronous else "",
        data_capture=cloud.data_capture,
        component=wanted.component,
        alarms=cloud.alarms,
    )
    found = serving_record(spec, artifact, place, weights_name=stored_weights_of(spec), tags=cloud.tags)
    return replace(found, candidate=_candidate(spec))


def _candidate(spec: Spec) -> CandidateServing | None:
    second = spec.candidate
    if second is None:
        return None
    return CandidateServing(
        serving=serving(second.spec, second.artifact),
        artifact=artifact_id(second.spec, second.artifact),
        percent=second.percent,
        shadow=second.shadow,
    )


def generation(
    spec: Spec, artifact: Artifact, plan: Plan, observed: CloudObserved, *, since: str
) -> Generation:
    desired = desired_state(spec, artifact)
    config = desired.endpoint_config(_serving(plan, observed)) or desired.configs[0]
    return Generation(
        server=config.name,
        spec=spec_digest(spec),
        artifact=artifact_id(spec, artifact),
        runtime="sagemaker",
        host=spec.cloud.region,
        port=0,
        serving=serving(spec, artifact, desired),
        since=since,
        instance=config.placement.instance,
    )


def _serving(plan: Plan, observed: CloudObserved) -> str:
    """The config that serves once the plan is carried out."""
    chosen = (a.config for a in plan.actions if isinstance(a, (CreateEndpoint, UpdateEndpoint, AwaitService)))
    note = observed.endpoint.config if observed.endpoint else ""
    return next(chosen, note)


def _costs(spec: Spec, placement: Placement, inventory: CloudInventory) -> Pairs:
    """Of the instance type of this plan, and of each other one that the recipe allows."""
    if not inventory.priced:
        return ()
    place = spec.cloud
    others = [each for each in place.placements if each != placement]
    lines = (("cost", cost_words(spec, placement, inventory.prices)),)
    if not others:
        return lines
    costs = ((each.instance, cost_of(place, each, inventory.prices)) for each in others)
    words = (one.brief if one else f"{instance}: {UNKNOWN_PRICE}" for instance, one in costs)
    return (*lines, ("alternatives", ", or ".join(words)))


def estimate(spec: Spec, inventory: CloudInventory) -> Estimate:
    """What the user should know before agreeing to the plan."""
    place = spec.cloud
    placement = inventory.choose(place.placements)
    least, most = place.instances
    count = f"{least} to {most}" if place.scaling or least != most else str(most)
    figures = (
        *(_costs(spec, placement, inventory) if _adds_cost(place, inventory) else _NO_COST),
        *_job_cost(spec, inventory),
        ("instance", f"{count} x {' or '.join(placement.types)}"),
        *_pools(placement),
        *candidate_figures(spec),
        *_shared(place, inventory),
        ("weights", str(spec.weights.size)),
        *additional_figures(spec.weights),
        ("to move", str(_bytes_to_move(spec, inventory))),
        *_transfer_time(spec, inventory),
        ("delivery", place.delivery),
        *_in_place(spec),
        ("region", place.region),
        ("bucket", place.bucket),
        ("image", place.image),
        *((("responses", place.asynchronous.output or ""),) if place.asynchronous else ()),
        *((("alarms", place.alarms.words),) if place.alarms else ()),
        *image_figures(spec, inventory),
    )
    return Estimate(figures=figures)


def during_update(spec: Spec, plan: Plan, observed: CloudObserved, inventory: CloudInventory) -> str:
    """The cost until the old instances end; empty of a plan that replaces no instance.

    SageMaker starts all new instances before it ends an old one, whichever way requests move; with policy `rolling`
    only those of a step (developer guide, "Blue/Green Deployments", "Rolling deployments").
    """
    update = next((action for action in plan.actions if isinstance(action, UpdateEndpoint)), None)
    running, endpoint = running_instances(observed), observed.endpoint
    if update is None or endpoint is None or not any(count for _, count in running):
        return ""
    policy, prices = update.policy or UpdatePolicy(), inventory.prices
    placement = inventory.choose(spec.cloud.placements)
    name, _ = dearest_type(placement.types, prices.get)
    new = [(name, max(endpoint.count, endpoint.desired_count) if update.keep_count else spec.cloud.count)]
    if spec.candidate is not None:
        second = spec.candidate.spec.cloud
        new.append((second.placements[0].instance, second.count))
    share = (policy.step_percent or 100) / 100 if policy.policy == "rolling" else 1.0
    start = _PROVIDED + max(
        careful_start(instance(name), spec.weights.total_size) for name in placement.types
    )
    span = f"about {seconds_text(whole_minutes(update_seconds(policy, start)))}"
    both = (
        "old and new instances run"
        if share == 1
        else f"the old instances and {100 * share:.0f} % of the new ones run"
    )
    fleets = [*running, *((name, math.ceil(count * share)) for name, count in new)]
    if {name for name, _ in fleets} - {*prices}:
        return f"an unknown price for {span}, while {both}"
    total = sum(prices[name].hourly * count for name, count in fleets)
    return f"{format_price(total, prices[name].currency)} an hour for {span}, while {both}"


def _pools(placement: Placement) -> Pairs:
    pools = placement.instance_pools
    return (("instance pools", pools.words),) if pools else ()


def _in_place(spec: Spec) -> Pairs:
    """Requests name the account as the bucket's expected owner, so that it is the owner's."""
    weights = spec.weights.in_place
    if weights is None:
        return ()
    return (
        ("in place", f"{weights.address} (bucket of account {spec.cloud.account}, which lmi never changes)"),
    )


def _shared(place: SageMakerPlace, inventory: CloudInventory) -> Pairs:
    """The endpoint that the model shares, and what it gets of it."""
    if place.component is None:
        return ()
    found = inventory.shared.models if inventory.shared else ()
    others = f", with {', '.join(each.name for each in found)}" if found else ""
    scaling = place.scaling
    number = f"{scaling.lowest} to {scaling.highest}" if scaling else str(place.component.copies)
    copies = f"{number} x ({place.component.words})"
    return (("shared endpoint", f"{place.component.endpoint}{others}"), ("share", copies))


_PROVIDED: Final = 300
"""Seconds, assumed, until an instance is there and has pulled its image of some gigabytes."""
_BYTES_PER_SECOND: Final = 100_000_000
"""From the Hub through this machine to S3: most of a line of 1 Gbit/s."""
_NO_COST: Final[Pairs] = (("cost", "nothing more: the shared endpoint runs already"),)


def _adds_cost(place: SageMakerPlace, inventory: CloudInventory) -> bool:
    """False for a model on a shared endpoint that has the recipe's number of instances already, and gets no more."""
    shared = inventory.shared.endpoint if inventory.shared else None
    if place.component is None or shared is None or place.instance_scaling is not None:
        return True
    return shared.desired_count < place.count


def _bytes_to_move(spec: Spec, inventory: CloudInventory) -> int:
    """Bytes: all of the weights, or those files of complete ones that were lost since; and additional models."""
    second = spec.candidate.spec if spec.candidate else None
    also = _bytes_to_move(second, inventory.candidate) if second and inventory.candidate else 0
    return also + _bytes_of_version(spec, inventory)


def _transfer_time(spec: Spec, inventory: CloudInventory) -> Pairs:
    """Of weights from the Hub or a folder, if it is a minute or more; S3 copies its own objects."""
    job, size = transfer_job_place(spec, inventory), _bytes_to_move(spec, inventory)
    rate = JOB_BYTES_PER_SECOND * job.count if job else _BYTES_PER_SECOND
    if spec.model.source == "s3" or inventory.copies or size < 60 * rate:
        return ()
    where = counted(job.count, "instance") if job else "this machine"
    span = seconds_text(whole_minutes(size / rate))
    return (("transfer time", f"about {span} at {size_text(rate)}/s, an assumed rate of {where}"),)


def _bytes_of_version(spec: Spec, inventory: CloudInventory) -> int:
    absent = {each.weights_name: each.size for each in spec.weights.additional}
    additional = sum(size for name, size in absent.items() if name in inventory.missing_additional)
    if inventory.weights:
        return additional
    lost = {issue.path for issue in inventory.weights_flaws}
    return additional + sum(file.size for file in spec.weights.files if not lost or file.path in lost)


def _job_cost(spec: Spec, inventory: CloudInventory) -> Pairs:
    """Of the transfer job, unless the bucket has everything that it would move."""
    job = transfer_job_place(spec, inventory)
    if job is None:
        return ()
    cost = job_cost(job, inventory)
    unknown = f"{job.count} x {job.instance}, {UNKNOWN_PRICE}"
    return (("transfer job", f"{cost.words if cost else unknown}, while it runs"),)
