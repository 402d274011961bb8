"""The image that lmi builds from the recipe's folder: its platform, its tag, its address."""

from __future__ import annotations

from dataclasses import replace

from lmi_deploy.catalog.images import host_suffix
from lmi_deploy.catalog.instances import chosen
from lmi_deploy.domain.gathered_facts import Facts
from lmi_deploy.domain.image_build import DOCKERFILE, ImageBuild, local_image, repository_name
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.errors import Unresolvable

_PLATFORMS = {"x86_64": "linux/amd64", "arm64": "linux/arm64"}


def image_build(recipe: Recipe, facts: Facts) -> ImageBuild | None:
    """None if the recipe has no container.build. Unresolvable for instances of two architectures."""
    if facts.build is None:
        return None
    return ImageBuild(
        context=facts.build,
        dockerfile=recipe.container.dockerfile or DOCKERFILE,
        arguments=recipe.container.build_args,
        platform="" if facts.cloud is None else _platform(recipe),
    )


def with_built_image(recipe: Recipe, facts: Facts) -> Recipe:
    """The same recipe with the address of the built image as its own."""
    build = image_build(recipe, facts)
    if build is None:
        return recipe
    image = local_image(recipe.name, build.tag)
    if cloud := facts.cloud:
        registry = f"{cloud.account}.dkr.ecr.{cloud.region}.{host_suffix(cloud.region)}"
        image = f"{registry}/{repository_name(recipe.name)}:{build.tag}"
    return replace(recipe, container=replace(recipe.container, image=image))


def _platform(recipe: Recipe) -> str:
    """Of the instances; SageMaker starts an image on no other."""
    machines = {machine.architecture: machine.name for machine in chosen(recipe)}
    if len(machines) > 1:
        names = " and ".join(f"{name} ({architecture})" for architecture, name in sorted(machines.items()))
        raise Unresolvable(
            f"container.build: {names} need images of two platforms",
            hint="name instance types of one architecture",
        )
    return _PLATFORMS[next(iter(machines), "x86_64")]
