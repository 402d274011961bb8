"""Find the recipe and the deployment: from the user's input, or from what exists."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lmi_deploy.api.recipe_loading import read_recipe, recipes_here
from lmi_deploy.domain.recipe_endpoint_keys import TargetName
from lmi_deploy.domain.recipe_keys import RECIPE_SUFFIXES, Recipe
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.errors import UsageRefused

if TYPE_CHECKING:  # `lmi validate` has no use for the ports, and importing them is a third of its time
    from lmi_deploy.workflows.dependencies import Dependencies


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOptions:
    """Where a named deployment is; empty if not given."""

    target: TargetName | None = None
    region: str = ""


ANYWHERE = TargetOptions()


def ref_fields(ref: DeploymentRef) -> dict[str, str]:
    """Which deployment a result is about, for a program."""
    return {"deployment": ref.name, "target": ref.target, "account": ref.account, "region": ref.region}


def find_deployment(name: str | None, deps: Dependencies, where: TargetOptions = ANYWHERE) -> DeploymentRef:
    """By name or by recipe; without either the only existing one."""
    if name is None:
        return _only_deployment(deps, where)
    if name.endswith(RECIPE_SUFFIXES):
        recipe = read_recipe(name, overlay=None, sets=(), deploying=False)
        target, bucket = where.target or recipe.endpoint.target, recipe.endpoint.bucket or ""
        region = where.region or _region(recipe, target, deps)
        return DeploymentRef(name=recipe.name, target=target, region=region, bucket=bucket)
    return _by_name(name, deps, where)


def _region(recipe: Recipe, target: TargetName, deps: Dependencies) -> str:
    """Of a recipe with several regions the one in which this machine deployed it, else in which it is found."""
    regions = recipe.endpoint.regions
    if not regions or target != "sagemaker":
        return recipe.endpoint.region or ""
    local = {ref.region for ref in known(deps) if ref.name == recipe.name and ref.region in regions}
    if len(local) == 1:
        return local.pop()
    from lmi_deploy.workflows.region_fallback import in_its_region

    return in_its_region(recipe, deps).endpoint.region or ""


def _by_name(name: str, deps: Dependencies, where: TargetOptions) -> DeploymentRef:
    """Among those known here; else where the command line says, else on SageMaker, else here, where it is absent."""
    local = _in_our_account([ref for ref in known(deps, where) if ref.name == name], deps)
    if len(local) == 1:
        return local[0]
    if local:
        places = ", ".join(sorted(f"{ref.target} {ref.region} {ref.account}".strip() for ref in local))
        raise UsageRefused(
            f"{name}: exists in {len(local)} places: {places}", hint="add --target or --region"
        )
    if where.target or where.region:
        target = where.target or "sagemaker"
        return DeploymentRef(name=name, target=target, region=where.region)
    # Imported here, not above: `lmi validate` has no use for it.
    from lmi_deploy.workflows.list_deployments import is_aws_reachable

    other_location = DeploymentRef(name=name, target="sagemaker")
    return other_location if is_aws_reachable(deps) else replace(other_location, target="local")


def _in_our_account(local: list[DeploymentRef], deps: Dependencies) -> list[DeploymentRef]:
    """Of several of one name those of the account that the credentials are of, and those that are here."""
    if len({ref.account for ref in local} - {""}) < 2:
        return local
    own = [ref for ref in local if ref.account in ("", deps.cloud(ref.region).caller.account)]
    return own or local


def known(deps: Dependencies, where: TargetOptions = ANYWHERE) -> tuple[DeploymentRef, ...]:
    """Every deployment of every target that can be listed from here."""
    return tuple(
        ref
        for target in deps.targets.values()
        for ref in target.list_known()
        if where.target in (None, ref.target) and where.region in ("", ref.region)
    )


def _only_deployment(deps: Dependencies, where: TargetOptions) -> DeploymentRef:
    local = known(deps, where)
    if len(local) == 1:
        return local[0]
    if not local and len(recipes_here()) == 1:
        return find_deployment(recipes_here()[0], deps, where)
    if not local:
        raise UsageRefused(
            "no deployment given, and this machine has none", hint="`lmi up RECIPE` creates one"
        )
    names = ", ".join(ref.name for ref in local)
    raise UsageRefused(
        f"no deployment given, and this machine has {len(local)}: {names}", hint="name one of them"
    )
