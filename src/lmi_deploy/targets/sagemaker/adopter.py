"""The port EndpointAdopter: endpoints of SageMaker that were made in the console, by an SDK or by Terraform."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from lmi_deploy.domain.default_bucket import default_bucket
from lmi_deploy.domain.permissions import PolicyStatement
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.s3_address import SCHEME
from lmi_deploy.domain.sagemaker.actions import MakeBucket
from lmi_deploy.domain.sagemaker.foreign_endpoint import ForeignEndpoint
from lmi_deploy.domain.sagemaker.resource_settings import TAG_ADOPTED, ObservedEndpoint
from lmi_deploy.errors import AccessError, NotFound, Refused
from lmi_deploy.ports.cloud import Cloud
from lmi_deploy.targets.endpoint_adopter import Adoption, ModelLocation
from lmi_deploy.targets.sagemaker.perform.action_dispatch import make_bucket
from lmi_deploy.targets.sagemaker.permissions.adoption_policy import adoption
from lmi_deploy.targets.sagemaker.plan.adopted_recipe import adopted_source
from lmi_deploy.targets.sagemaker.plan.adoption import (
    adopted_generation,
    adoption_plan,
    is_recorded,
    require_adoptable,
    require_not_deployed,
    require_one_variant,
    require_readable,
)
from lmi_deploy.targets.sagemaker.target import SageMakerTarget
from lmi_deploy.targets.target import Perform

_LOOKED_AT: Final = 100
"""The most other endpoints that are described to see whether they use the same config or model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SageMakerAdopter:
    target: SageMakerTarget

    recipe_source = staticmethod(adopted_source)

    def read(self, name: str, region: str) -> ForeignEndpoint:
        cloud = self.target.cloud(region)
        hosting, place = cloud.hosting, cloud.caller.region
        endpoint = hosting.endpoint(name)
        if endpoint is None or endpoint.status == "Deleting":
            raise NotFound(
                f"{name}: {'the endpoint is being deleted' if endpoint else 'no such endpoint'} in account "
                f"{cloud.caller.account}, {place}",
                hint="name another one: `lmi ls` counts the endpoints that lmi did not make, and `aws sagemaker "
                "list-endpoints` names them; or add --region",
            )
        tags = {endpoint.arn: hosting.tags(endpoint.arn)}
        require_not_deployed(name, place, dict(tags[endpoint.arn]))
        config = hosting.foreign_endpoint_config(endpoint.config) if endpoint.config else None
        if config is None:
            raise Refused(
                f"{name}: its endpoint config {endpoint.config} was deleted, so that nothing says what it is",
                hint="write a recipe of its model: `lmi init MODEL`",
            )
        require_one_variant(name, config)
        model = hosting.foreign_model(config.settings.model) if config.settings.model else None
        if model is None:
            why = (
                f"its model {config.settings.model} was deleted"
                if config.settings.model
                else "its variant names no model: its models are inference components"
            )
            raise Refused(f"{name}: {why}", hint="write a recipe of its model: `lmi init MODEL`")
        foreign = ForeignEndpoint(
            endpoint=endpoint,
            config=config,
            model=model,
            tags=tags | {arn: hosting.tags(arn) for arn in (config.arn, model.arn)},
            region=place,
            scaling=cloud.foreign_scaling.read(name, endpoint.variant),
        )
        require_readable(foreign)
        return foreign

    def model_location(self, foreign: ForeignEndpoint) -> ModelLocation | None:
        address = foreign.model.archive or foreign.model.settings.artifact
        if not address:
            return None
        bucket, _, path = address.removeprefix(SCHEME).partition("/")
        cloud = self.target.cloud(foreign.region)
        services = self.target.depot(cloud, bucket)
        if services is None:
            raise NotFound(f"s3://{bucket}: no such bucket", hint="name the model with --model")
        return ModelLocation(store=services.store, path=path)

    def plan(self, foreign: ForeignEndpoint, recipe: Recipe, *, force: bool) -> Adoption:
        require_adoptable(foreign, force=force)
        cloud, name = self.target.cloud(foreign.region), foreign.endpoint.name
        account, region = cloud.caller.account, cloud.caller.region
        bucket = recipe.endpoint.bucket or default_bucket(account, region)
        ref = DeploymentRef(name=name, target="sagemaker", region=region, bucket=bucket, account=account)
        services = self.target.depot(cloud, bucket)
        if not foreign.tags_of(foreign.config.arn).get(TAG_ADOPTED):
            foreign = replace(foreign, shared=_shared(foreign, cloud))
        recorded = is_recorded(services.records.read(name) if services else None, foreign)
        stays = (
            f"the config {foreign.config.name} and the model {foreign.model.name} stay as they are, and `lmi down` "
            f"does not delete them: {foreign.shared}"
        )
        return Adoption(
            ref=ref,
            plan=adoption_plan(foreign, recipe, ref, bucket=services is not None),
            generation=None if recorded else adopted_generation(foreign, recipe),
            notices=(stays,) if foreign.shared else (),
        )

    def actions(self, ref: DeploymentRef) -> Perform:
        cloud = self.target.cloud(ref.region)
        return {
            **self.target.teardown_actions(ref),
            MakeBucket: lambda action: make_bucket(cloud, action),
        }

    def permissions(self, foreign: ForeignEndpoint) -> Iterator[PolicyStatement]:
        yield from adoption(foreign)


def _shared(foreign: ForeignEndpoint, cloud: Cloud) -> str:
    """Why config and model may be in use by another endpoint; empty if they are not."""
    try:
        others = [one.name for one in cloud.hosting.endpoints() if one.name != foreign.endpoint.name]
        if len(others) > _LOOKED_AT:
            return f"{len(others)} other endpoints may use them, and lmi looks at {_LOOKED_AT} at most"
        configs = {name: _configs(cloud.hosting.endpoint(name)) for name in others}
        for name, used in configs.items():
            if foreign.config.name in used:
                return f"the endpoint {name} uses the same config"
        models = {one: cloud.hosting.endpoint_config(one) for one in set().union(*configs.values())}
    except AccessError as denied:
        return f"whether other endpoints use them cannot be read: {denied.message}"
    users = (one for one, found in models.items() if found and foreign.model.name in found.models)
    return next((f"the endpoint config {one} uses the same model" for one in sorted(users)), "")


def _configs(endpoint: ObservedEndpoint | None) -> set[str]:
    return {endpoint.config, endpoint.pending} - {""} if endpoint else set()
