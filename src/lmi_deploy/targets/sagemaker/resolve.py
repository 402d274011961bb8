"""SageMaker: account, image, instances, delivery of the weights, time-outs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import Final

from lmi_deploy.catalog.instances import chosen, has_local_disks
from lmi_deploy.catalog.packaged_prices import packaged
from lmi_deploy.domain.deployment_spec import AdditionalModel, EngineSpec, WeightsSpec
from lmi_deploy.domain.gathered_facts import CloudFacts, Facts
from lmi_deploy.domain.number_text import size_text
from lmi_deploy.domain.recipe_endpoint_keys import Asynchronous, Endpoint, UpdatePolicy
from lmi_deploy.domain.recipe_instance_keys import InstancePools
from lmi_deploy.domain.recipe_keys import Pairs, Recipe
from lmi_deploy.domain.s3_address import read_prefix
from lmi_deploy.domain.sagemaker.async_layout import default_output
from lmi_deploy.domain.sagemaker.resource_settings import Delivery, Placement, PoolSettings
from lmi_deploy.domain.target_spec import SageMakerPlace
from lmi_deploy.engines.image_server import ENTRY_POINT, ImageServer
from lmi_deploy.engines.registry import ENGINES
from lmi_deploy.errors import Unresolvable
from lmi_deploy.planning.image_build import image_build
from lmi_deploy.planning.transfer_options import transfer_options
from lmi_deploy.sizing.longest_context import USUAL_REGION, instance_by_size
from lmi_deploy.targets.sagemaker.alarms import alarms_of
from lmi_deploy.targets.sagemaker.autoscaling import scaling_of
from lmi_deploy.targets.sagemaker.compile_job.resolve import compile_place
from lmi_deploy.targets.sagemaker.component_place import component_place
from lmi_deploy.targets.sagemaker.download_time import resolve_timeouts, volume_gb
from lmi_deploy.targets.sagemaker.in_place import require_outside
from lmi_deploy.targets.sagemaker.roles import ENDPOINT_ROLE, role_arn
from lmi_deploy.targets.sagemaker.transfer_job.resolve import job_place
from lmi_deploy.targets.sagemaker.validate import validate
from lmi_deploy.targets.sagemaker.validate.images import host_of, image_of, least_capability

ARTIFACT_LIMIT = 5_000_000_000
"""Maximum bytes of weights in the artifact: each changed artifact copies them again inside S3, and one such copy is
limited to objects of 5 GB.
"""
_TRIED_IN_ORDER: Final = "remove endpoint.instance_pools: lmi then tries the types one after the other"


def place_of(recipe: Recipe, facts: Facts, weights: WeightsSpec, engine: EngineSpec) -> SageMakerPlace:
    """Raises Unresolvable, with the arithmetic shown."""
    cloud = facts.cloud
    if cloud is None:
        raise Unresolvable(
            "endpoint.target: sagemaker, but the account was not looked up", hint="this is a bug of lmi"
        )
    recipe = recipe.in_region(cloud.region)
    _refuse(recipe, weights.size)
    _require_small(weights.adapters, shared=bool(recipe.endpoint.share))
    if weights.in_place is not None:
        require_outside(read_prefix(weights.in_place.address), cloud.bucket)
    size, endpoint = _size(recipe, weights), recipe.endpoint
    image, delivery = image_of(recipe, cloud.region), _delivery(recipe, engine, weights.size)
    time = resolve_timeouts(recipe, delivery, chosen(recipe), size)
    place = SageMakerPlace(
        account=cloud.account,
        partition=cloud.partition,
        region=cloud.region,
        bucket=cloud.bucket,
        role=role_arn(endpoint.role, cloud, default=ENDPOINT_ROLE, key="endpoint.role"),
        image=image,
        placements=_placements(recipe, image, size),
        count=endpoint.initial_count,
        environment=_environment(engine, recipe.container.environment),
        delivery=delivery,
        model_download=time.model_download,
        startup_timeout=time.startup,
        network_isolation=endpoint.network_isolation,
        vpc=endpoint.vpc,
        kms_key=endpoint.kms_key or "",
        scaling=scaling_of(recipe),
        tags=endpoint.tags,
        ttl=recipe.ttl or 0,
        travel=transfer_options(recipe.weights),
        token_secret=recipe.weights.token_secret or "",
        job=job_place(recipe, cloud, weights),
        scheduler_role=_scheduler_role(endpoint, cloud),
        build=image_build(recipe, facts),
        data_capture=endpoint.data_capture,
        asynchronous=_asynchronous(recipe, cloud.bucket),
        update=_update_policy(endpoint),
        alarms=alarms_of(recipe),
        component=component_place(recipe, degree=engine.tensor_parallel_degree, weights=size),
        regions=endpoint.regions,
        instance_scaling=endpoint.instance_scaling,
    )
    compiling = compile_place(recipe, facts, weights=weights, engine=engine, place=place)
    return replace(place, compile=compiling)


def _size(recipe: Recipe, weights: WeightsSpec) -> int:
    """Bytes that decide what the model gets. Not of adapters on a shared endpoint: there a change of them must not
    change the model.
    """
    return weights.size_without_adapters if recipe.endpoint.share else weights.total_size


def _scheduler_role(endpoint: Endpoint, cloud: CloudFacts) -> str:
    if not endpoint.scheduler_role:
        return ""
    return role_arn(endpoint.scheduler_role, cloud, default="", key="endpoint.scheduler_role")


def _asynchronous(recipe: Recipe, bucket: str) -> Asynchronous | None:
    given = recipe.endpoint.asynchronous
    return given and replace(given, output=given.output or default_output(bucket, recipe.name))


def _update_policy(endpoint: Endpoint) -> UpdatePolicy | None:
    """With its step: at least one instance, and within the limits of `validate/update_policy.py`."""
    update = endpoint.update
    if update is None or update.policy == "all-at-once" or update.step_percent:
        return update
    return replace(update, step_percent=max(10, ceil(100 / endpoint.initial_count)))


def _refuse(recipe: Recipe, size: int) -> None:
    found = list(validate(recipe))
    if not recipe.instance_type:
        prices = packaged().of(USUAL_REGION)
        usable = instance_by_size(size, prices, least_capability=least_capability(recipe))
        such = f"such as instance_type: {usable.instance} ({usable.why}); " if usable else ""
        raise Unresolvable(
            "instance_type: missing; target sagemaker needs it",
            hint=f"{such}`lmi instances --fits {recipe.model_id}` lists those that hold it",
        )
    if found:
        first, *rest = found
        raise Unresolvable(
            f"{first.path}: {first.what}",
            hint=first.hint,
            details=[f"{other.path}: {other.what}" for other in rest],
        )


def _placements(recipe: Recipe, image: str, size: int) -> tuple[Placement, ...]:
    found = tuple(
        Placement(
            instance=machine.name,
            volume_gb=volume_gb(machine, recipe.endpoint.volume_gb, size),
            host_ami=host_of(recipe, image, machine),
        )
        for machine in chosen(recipe)
    )
    pools = recipe.endpoint.instance_pools
    return found if pools is None else (_pooled(found, pools),)


def _pooled(placements: Sequence[Placement], pools: InstancePools) -> Placement:
    """One placement for all. Unresolvable if they need volumes or host images of their own: a variant has one of each
    for all its pools (SageMaker's API reference, ProductionVariant; read in November 2026).
    """
    hosts = {one.host_ami: one.instance for one in placements}
    if len(hosts) > 1:
        each = ", ".join(f"{name} {host or 'the default'}" for host, name in hosts.items())
        raise Unresolvable(
            f"endpoint.instance_pools: a variant has one host image for all its pools, but these types need: {each}",
            hint=f"set container.host_ami, name types of one kind, or {_TRIED_IN_ORDER}",
        )
    size = max(one.volume_gb for one in placements)
    disks = next((one.instance for one in placements if has_local_disks(one.instance)), "")
    if size and disks:
        needs = next(one.instance for one in placements if one.volume_gb)
        raise Unresolvable(
            f"endpoint.instance_pools: {needs} needs a volume of {size} GB, and SageMaker accepts no volume size for "
            f"{disks}, which has local disks; a variant has one size for all its pools",
            hint=f"name only types with local disks, or none of them, or {_TRIED_IN_ORDER}",
        )
    first, *others = placements
    return Placement(
        instance=first.instance,
        volume_gb=size,
        host_ami=first.host_ami,
        instance_pools=PoolSettings(
            others=tuple(one.instance for one in others), provision_timeout=pools.provision_timeout
        ),
    )


def _delivery(recipe: Recipe, engine: EngineSpec, size: int) -> Delivery:
    has_own_server = engine.handler.entry_point == ENTRY_POINT
    possible = ImageServer.deliveries if has_own_server else ENGINES[recipe.engine].deliveries
    usual = "mount" if recipe.endpoint.network_isolation and "mount" in possible else possible[0]
    chosen = recipe.weights.deliver or usual
    if chosen not in possible:
        raise Unresolvable(
            f"weights.deliver: the server of engine {recipe.engine} cannot get its weights by {chosen}",
            hint=f"use {' or '.join(possible)}, or omit it",
        )
    if chosen == "artifact" and size > ARTIFACT_LIMIT:
        raise Unresolvable(
            f"weights.deliver: artifact is for at most {ARTIFACT_LIMIT / 1000000000.0:g} GB, but these weights have "
            f"{size_text(size)}: every change of the artifact would copy them again",
            hint="omit it (s3), or write mount",
        )
    return chosen


def _require_small(adapters: Sequence[AdditionalModel], *, shared: bool) -> None:
    """On a shared endpoint each has an artifact of its own."""
    size = 0 if shared else sum(adapter.size for adapter in adapters)
    if size > ARTIFACT_LIMIT:
        raise Unresolvable(
            f"adapters: {size_text(size)} in all; at most {ARTIFACT_LIMIT / 1000000000.0:g} GB, because every change "
            "of the artifact copies them again",
            hint="divide the adapters between two deployments",
        )


def _environment(engine: EngineSpec, given: Pairs) -> Pairs:
    return tuple(sorted((dict(ENGINES[engine.name].environment(engine)) | dict(given)).items()))
