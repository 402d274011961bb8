"""Target sagemaker: an endpoint that another tool made becomes a deployment. Nothing of it is changed but its tags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from lmi_deploy import __version__
from lmi_deploy.catalog.server_version import server_version
from lmi_deploy.domain.deployment_names import name_error
from lmi_deploy.domain.environment_digests import value_digest
from lmi_deploy.domain.observed_state import CloudObserved
from lmi_deploy.domain.plan import Action, Plan
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.record import DeploymentRef, Generation, Record, command_for
from lmi_deploy.domain.sagemaker.actions import MakeBucket
from lmi_deploy.domain.sagemaker.adoption_actions import AdoptResource, RemoveForeignScaling
from lmi_deploy.domain.sagemaker.foreign_endpoint import ForeignEndpoint, ForeignEndpointConfig
from lmi_deploy.domain.sagemaker.resource_settings import (
    SETTLING,
    TAG,
    TAG_ADOPTED,
    TAG_BUCKET,
    TAG_ENGINE,
    TAG_SHARED,
    TAG_VERSION,
    VARIANT,
    WEIGHTS_CHANNEL,
    EndpointConfigSettings,
    ModelSettings,
    ResourceKind,
)
from lmi_deploy.domain.serving_record import SageMakerServing, ServingRecord
from lmi_deploy.engines.registry import ENGINES
from lmi_deploy.errors import Refused, Unresolvable
from lmi_deploy.planning.resolve import probe_of_recipe
from lmi_deploy.targets.sagemaker.desired_state import PROVISION

_STACK: Final = "aws:cloudformation:stack-name"
_OTHERS: Final = ("terraform", "pulumi", "opentofu")
_REMEDIES: Final = {
    "terraform": "remove it from Terraform's state first (terraform state rm ADDRESS)",
    "opentofu": "remove it from OpenTofu's state first (tofu state rm ADDRESS)",
    "pulumi": "remove it from Pulumi's state first (pulumi state delete URN)",
}


def end_foreign_scaling(observed: CloudObserved) -> Iterator[RemoveForeignScaling]:
    """Before a variant of another name than lmi's is removed. SageMaker refuses that for a scalable target."""
    endpoint = observed.endpoint
    if endpoint is not None and endpoint.variant != VARIANT:
        yield RemoveForeignScaling(endpoint=endpoint.name, variant=endpoint.variant)


def require_not_deployed(name: str, region: str, tags: Mapping[str, str]) -> None:
    """Refused if lmi created it: an adopted endpoint has the tag of that, from the first moment that it is lmi's."""
    if tags.get(TAG) != name or tags.get(TAG_ADOPTED):
        return
    what = "a shared endpoint" if tags.get(TAG_SHARED) else "a deployment"
    raise Refused(
        f"{name}: it is {what} of lmi already: nothing is to be adopted",
        hint=f"use `{command_for('status', name, region)}`",
    )


def require_one_variant(name: str, config: ForeignEndpointConfig) -> None:
    """Refused for several production variants, and for a shadow."""
    if len(config.variants) > 1 or config.shadows:
        shadows = f" and the shadow {', '.join(config.shadows)}" if config.shadows else ""
        raise Refused(
            f"{name}: its config {config.name} has the variants {', '.join(config.variants)}{shadows}; a deployment "
            "has one",
            hint="update the endpoint to a config with one production variant and no shadow, then run lmi adopt again",
        )


def require_readable(foreign: ForeignEndpoint) -> None:
    """Refused if no recipe can say what it is."""
    name, config, model = foreign.endpoint.name, foreign.config, foreign.model
    if not config.settings.instance:
        raise Refused(
            f"{name}: its variant {config.variants[0]} names no instance type: it is serverless, or its instance pools "
            "have models of their own",
            hint="update the endpoint to a config with an instance type, or write a recipe: lmi init MODEL",
        )
    if model.containers > 1 or "Mode" in model.not_read:
        what = f"{model.containers} containers" if model.containers > 1 else "many models in one container"
        raise Refused(
            f"{name}: its model {model.name} has {what}; a deployment has one model in one container",
            hint="write a recipe for each model: lmi init MODEL",
        )


def managed_by(foreign: ForeignEndpoint) -> str:
    """Which tool manages it, by its tags, in words; empty if they name none."""
    tags = foreign.tags_of(foreign.endpoint.arn)
    if stack := tags.get(_STACK):
        return f"the CloudFormation stack {stack}"
    for key, value in tags.items():
        if key.startswith("aws:"):
            continue
        found = next((tool for tool in _OTHERS if tool in key.lower() or tool == value.lower()), "")
        if found:
            return f"{found.capitalize()} (tag {key}: {value})"
    return ""


def require_adoptable(foreign: ForeignEndpoint, *, force: bool) -> None:
    """Refused if it is another deployment's, another tool's, changing, or has a name that lmi cannot use."""
    endpoint = foreign.endpoint
    name, owner = endpoint.name, foreign.tags_of(endpoint.arn).get(TAG, "")
    if why := name_error(name):
        raise Refused(
            f"{name}: lmi cannot use this name: {why}",
            hint="SageMaker renames no endpoint: deploy the recipe under a new name with `lmi up`, move the clients, "
            "then delete the old endpoint",
        )
    if owner not in ("", name):
        raise Refused(
            f"{name}: it belongs to the deployment {owner} of lmi: its tag {TAG} says so",
            hint=f"use `{command_for('status', owner, foreign.region)}`; if the tag is a mistake, remove it: aws "
            f"sagemaker delete-tags --region {foreign.region} --resource-arn {endpoint.arn} --tag-keys {TAG}",
        )
    manager = managed_by(foreign)
    if manager and not force and not owner:
        tool = manager.partition(" ")[0].lower()
        remedy = _REMEDIES.get(
            tool, "remove it from the stack first, with DeletionPolicy: Retain, so that it goes on serving"
        )
        raise Refused(
            f"{name}: {manager} manages it, and its next run would undo what lmi does",
            hint=f"{remedy}; or add --force",
        )
    if endpoint.status != "InService":
        settles = endpoint.status in SETTLING and endpoint.status != "Deleting"
        raise Refused(
            f"{name}: it is {endpoint.status}: only an endpoint that is InService can be adopted",
            hint=f"wait until it is InService: aws sagemaker wait endpoint-in-service --region {foreign.region} "
            f"--endpoint-name {name}"
            if settles
            else "there is nothing to keep: delete it, and deploy the recipe with `lmi up`",
        )


def adoption_plan(foreign: ForeignEndpoint, recipe: Recipe, ref: DeploymentRef, *, bucket: bool) -> Plan:
    """The endpoint last: until then it is not lmi's, and the same command continues."""
    actions: list[Action] = []
    if not bucket:
        actions.append(
            MakeBucket(bucket=ref.bucket, region=ref.region, kms_key=recipe.endpoint.kms_key or "")
        )
    marks = {TAG: ref.name, TAG_BUCKET: ref.bucket, TAG_ADOPTED: "true"}
    named: list[tuple[str, ResourceKind, str]] = []
    if not foreign.shared:
        named.append((foreign.model.name, "model", foreign.model.arn))
        named.append((foreign.config.name, "endpoint-config", foreign.config.arn))
    named.append((foreign.endpoint.name, "endpoint", foreign.endpoint.arn))
    for name, kind, arn in named:
        desired = marks | ({TAG_ENGINE: recipe.engine} if kind == "endpoint" else {})
        existing = foreign.tags_of(arn)
        differing = {key: value for key, value in desired.items() if existing.get(key) != value}
        if differing:
            tags = tuple(sorted({**differing, TAG_VERSION: __version__}.items()))
            actions.append(AdoptResource(resource=name, of=kind, arn=arn, tags=tags))
    return Plan(deployment=ref.name, actions=tuple(actions))


def is_recorded(record: Record | None, foreign: ForeignEndpoint) -> bool:
    """Whether its current config is a generation of the record, and no other one is pending."""
    known = record.generations if record and record.coming is None else ()
    return any(generation.server == foreign.config.name for generation in known)


def adopted_generation(foreign: ForeignEndpoint, recipe: Recipe) -> Generation:
    """What later commands know of it: from the recipe how it is invoked, from AWS the rest."""
    engine = ENGINES[recipe.engine]
    try:
        version, _ = server_version(recipe.container.version, recipe.container.image)
        handler = engine.handler(recipe.handler, recipe.task, version=version)
        probe = probe_of_recipe(recipe, engine, handler, recipe.task)
    except Unresolvable:
        handler, probe = None, None
    serving = ServingRecord(
        model=recipe.model_id,
        commit="",
        engine=recipe.engine,
        task=recipe.task or "",
        handler=handler.entry_point if handler else "",
        template=(handler.template or "") if handler else "",
        tensor_parallel_degree=recipe.tensor_parallel_degree or 0,
        weights="",
        artifact="",
        place=_place(foreign),
        probe=probe,
        environment=tuple((name, value_digest(value)) for name, value in foreign.model.settings.environment),
        properties=(),
    )
    return Generation(
        server=foreign.config.name,
        spec="",
        artifact="",
        runtime="sagemaker",
        host=foreign.region,
        port=0,
        serving=serving,
        since=foreign.endpoint.created,
        instance=foreign.config.settings.instance,
    )


def _place(foreign: ForeignEndpoint) -> SageMakerServing:
    config, model = foreign.config.settings, foreign.model.settings
    return replace(
        described_place(foreign.region, foreign.model.name, config, model),
        count=foreign.endpoint.desired_count or config.count,
        delivery="artifact" if foreign.model.archive or model.artifact else "s3",
        variant=foreign.endpoint.variant if foreign.endpoint.variant != VARIANT else "",
        variant_scaling=foreign.scaling.words if foreign.scaling else "",
    )


def described_place(
    region: str, name: str, config: EndpointConfigSettings, model: ModelSettings
) -> SageMakerServing:
    """From what AWS shows of a config and of its model of this name. Whether the container downloads its weights or the
    artifact has them, only the artifact says.
    """
    return SageMakerServing(
        model=name,
        region=region,
        image=model.image,
        placements=(config.placement,),
        count=config.count,
        delivery="mount" if any(one.channel == WEIGHTS_CHANNEL for one in model.mounts) else "artifact",
        role=model.role,
        model_download=config.model_download,
        container_startup=config.startup,
        wait_timeout=config.model_download + config.startup + PROVISION,
        kms_key=config.kms_key,
        network_isolation=model.network_isolation,
        vpc=model.vpc,
        scaling=None,
        async_output=(config.asynchronous.output or "") if config.asynchronous else "",
        data_capture=config.data_capture,
    )
