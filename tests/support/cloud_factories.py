"""Domain objects of target sagemaker for tests of pure code: an account, a recipe, and what follows from
them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.gathered_facts import CloudFacts, Facts, FileEntry, ModelListing
from lmi_deploy.domain.image_build import BuildContext, ImageBuild
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.target_spec import SageMakerPlace
from lmi_deploy.planning.resolve import resolve
from lmi_deploy.targets.sagemaker.resolve import place_of
from tests.support.factories import entry, facts
from tests.support.recipe_parsing import MOVING, parse

ACCOUNT = "123456789012"
REGION = "us-east-1"
GB = 1_000_000_000

CLOUD = CloudFacts(
    account=ACCOUNT,
    partition="aws",
    region=REGION,
    principal=f"arn:aws:iam::{ACCOUNT}:user/ada",
    bucket=f"lmi-{ACCOUNT}-{REGION}-an",
)


def cloud_recipe(extra: str = "instance_type: ml.g5.xlarge\n", *, engine: str = "accelerate") -> Recipe:
    return parse(f"name: m\nmodel_id: org/m\nengine: {engine}\n{extra}", "m.yaml", purpose=MOVING)


def cloud_facts(size: int = 10, **changes: Any) -> Facts:
    """Facts of a model with `size` bytes of weights."""
    files = (entry("config.json", 0), entry("model.safetensors", size))
    plain = facts(listing=_listing(files), machine=None, port=None, cloud=CLOUD)
    return replace(plain, **changes)


def cloud_spec(extra: str = "instance_type: ml.g5.xlarge\n", *, size: int = 10, **changes: Any) -> Spec:
    return resolve(cloud_recipe(extra), cloud_facts(size, **changes), place_of)


def compiled_spec(*, script: bool = True) -> Spec:
    """Of a recipe with `compile`: by a processing job, or without a script by an optimization job."""
    if script:
        return cloud_spec("instance_type: ml.g5.xlarge\ncompile: {script: compile.py}\n")
    recipe = cloud_recipe(
        "instance_type: ml.inf2.8xlarge\ntask: text-generation\ncompile: {}\n", engine="neuronx"
    )
    return resolve(recipe, cloud_facts(), place_of)


def shared_spec() -> Spec:
    """Of a recipe whose model is an inference component of a shared endpoint."""
    return cloud_spec("instance_type: ml.g5.12xlarge\ntensor_parallel_degree: 1\nendpoint: {share: team}\n")


def built_spec() -> Spec:
    """Of a recipe whose image lmi builds."""
    context = BuildContext(folder="/image", digest="d" * 64, files=1, size=10)
    build = ImageBuild(context=context, dockerfile="Dockerfile", arguments=(), platform="linux/amd64")
    return placed_spec(build=build)


def placed_spec(**changes: Any) -> Spec:
    """A spec with a second instance type in reserve and a user's tag; `changes` apply to its target."""
    extra = "instance_type: [ml.g5.xlarge, ml.m5.xlarge]\nendpoint: {volume_gb: 30, tags: {team: nlp}}\n"
    spec = cloud_spec(extra)
    return replace(spec, place=replace(spec.cloud, **changes))


def cloud_place(extra: str = "instance_type: ml.g5.xlarge\n", *, size: int = 10) -> SageMakerPlace:
    return cloud_spec(extra, size=size).cloud


def _listing(files: tuple[FileEntry, ...]) -> ModelListing:
    return ModelListing(model_id="org/m", commit="c" * 40, files=files)
