"""What a rehearsal deploys in place of the model: a stand-in model, or what is compiled from it; and in place of the
engine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from lmi_deploy.catalog.server_version import engine_image
from lmi_deploy.catalog.stand_ins import StandIn, read_stand_ins, stand_in_for
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.gathered_facts import CompiledModel, Facts, ModelListing
from lmi_deploy.domain.image_build import local_image
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.target_spec import LocalPlace
from lmi_deploy.ports.hub import Hub
from lmi_deploy.workflows import up
from lmi_deploy.workflows.dependencies import Dependencies

REGION: Final = "us-east-1"
"""Where a recipe without a region is rehearsed."""
ANYWHERE: Final = LocalPlace(
    runtime="embedded",
    host="",
    port=0,
    device_memory=0,
    device="",
    startup_timeout=0,
    environment=(),
    packages=(),
)
"""For the choice of weights, which does not depend on the place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsedModel:
    """What is deployed in place of the model's weights: the stand-in model, or what was compiled from it."""

    source: Hub
    listing: ModelListing
    compiled: CompiledModel | None = None
    environment: str = ""
    """That of the compile script."""

    def instead_of_weights(self, resolved: up.ResolvedRecipe, deps: Dependencies) -> up.ResolvedRecipe:
        """The same decisions, made for the real model; only the files of the weights differ."""
        if self.compiled is not None:
            resolved = up.with_result(resolved, self.compiled, deps)
        # Without the mark of a result, which `lmi compile` alone stores: here `up` sends it like other weights.
        weights = replace(resolved.spec.weights, files=self.listing.files, compiled="")
        return replace(resolved, spec=replace(resolved.spec, weights=weights))


def stand_in_of(recipe: Recipe, spec: Spec) -> StandIn | None:
    return stand_in_for(
        read_stand_ins(), _image_of(recipe), spec.engine.handler.entry_point, dict(spec.engine.properties)
    )


def compiler_stand_in_of(recipe: Recipe) -> StandIn | None:
    """With the compilers that the recipe's image has, also where the engine itself runs."""
    image = _image_of(recipe)
    return next((one for one in read_stand_ins() if one.has_packages_for(image)), None)


def _image_of(recipe: Recipe) -> str:
    image = local_image(recipe.name, "built") if recipe.container.build else recipe.container.image
    if image is not None:
        return image
    region = recipe.endpoint.region or REGION
    return engine_image(recipe.engine, recipe.container.version or "", region).uri


def tensor_names(facts: Facts) -> frozenset[str]:
    """Of the model's own weights; none if it has no safetensors."""
    headers = facts.tensors.headers.values() if facts.tensors else ()
    return frozenset(name for tensors in headers for name, _, _ in tensors)


def replaced_lines(stand_in: StandIn | None, spec: Spec) -> tuple[str, ...]:
    """The lines of serving.properties that the container gets in another form."""
    if stand_in is None:
        return ()
    pairs = [(pair, stand_in.instead_of(*pair)) for pair in spec.engine.properties]
    return tuple(f"{'='.join(old)} as {'='.join(new)}" for old, new in pairs if old != new)
