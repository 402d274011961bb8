"""The container image and the host below it: which one, from where, and whether their CUDA agrees."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from lmi_deploy.catalog import images
from lmi_deploy.catalog.instances import Kind
from lmi_deploy.core.recipe import Engine, Recipe
from lmi_deploy.decide.hosting.complaint import Complaint, Rule
from lmi_deploy.decide.hosting.devices import chosen
from lmi_deploy.errors import Unresolvable

_FAMILIES: Final[Mapping[Engine, str]] = {"vllm": "djl-lmi", "accelerate": "djl-lmi", "custom": "djl-lmi"}
_ECR = re.compile(r"[0-9]{12}\.dkr\.ecr(-fips)?\.([a-z0-9-]+)\.[a-z0-9.-]+/[^\s]+")
_ANY_REGION = "us-east-1"
"""Where every image is published."""
_HOSTS: Final[Mapping[str, tuple[Kind, int]]] = {
    "al2-ami-sagemaker-inference-gpu-2": ("gpu", 12),
    "al2-ami-sagemaker-inference-gpu-2-1": ("gpu", 12),
    "al2-ami-sagemaker-inference-gpu-3-1": ("gpu", 12),
    "al2023-ami-sagemaker-inference-gpu-4-1": ("gpu", 13),
    "al2-ami-sagemaker-inference-neuron-2": ("neuron", 0),
}
"""Host images with the devices that they drive, and the CUDA of their driver."""
_HOST_OF_CUDA: Final[Mapping[int, str]] = {
    12: "al2-ami-sagemaker-inference-gpu-3-1",
    13: "al2023-ami-sagemaker-inference-gpu-4-1",
}


def image_of(recipe: Recipe, region: str) -> str:
    """The recipe's own, else AWS's for engine, version and region. Raises Unresolvable where there is none."""
    if recipe.container.image:
        return recipe.container.image
    family = _FAMILIES.get(recipe.engine)
    if family is None:
        raise Unresolvable(f"engine {recipe.engine} has no image here", hint="name one: container.image")
    return images.image(family, recipe.container.version or "", region).uri


def host_of(recipe: Recipe, image: str, kind: Kind) -> str:
    """The recipe's host image where it drives such devices, else that of the image's CUDA; else SageMaker's."""
    wish = recipe.container.host_ami
    if wish and _HOSTS[wish][0] == kind:
        return wish
    return _HOST_OF_CUDA.get(cuda_of(image) or 0, "") if kind == "gpu" else ""


def cuda_of(image: str) -> int | None:
    """The major version that the tag tells; None where it tells none."""
    told = images.cuda(image.rpartition(":")[2])
    return int(told.partition(".")[0]) if told else None


def region_of(image: str) -> str | None:
    """The region of the registry; None where it is not an ECR of AWS's."""
    found = _ECR.fullmatch(image)
    return found[2] if found else None


def _version(recipe: Recipe) -> Iterator[Complaint]:
    version, region = recipe.container.version, recipe.endpoint.region
    if recipe.container.image is not None:
        if version is not None:
            what = "stands beside container.image, which has its own"
            yield _complaint("container.version", what, "leave it out", "container.image")
    elif refusal := _refused(recipe, _ANY_REGION):
        path = "engine" if version is None else "container.version"
        yield _complaint(path, refusal.message, refusal.hint, "engine")
    elif region is not None and (refusal := _refused(recipe, region)):
        yield _complaint("endpoint.region", refusal.message, refusal.hint, "container.version", "engine")


def _refused(recipe: Recipe, region: str) -> Unresolvable | None:
    try:
        image_of(recipe, region)
    except Unresolvable as refusal:
        return refusal
    return None


def _registry(recipe: Recipe) -> Iterator[Complaint]:
    image, region = recipe.container.image, recipe.endpoint.region
    if image is None:
        return
    where = region_of(image)
    if where is None:
        what = f"{image} is not in ECR, from which alone SageMaker takes images here"
        hint = "push it to ECR: <account>.dkr.ecr.<region>.amazonaws.com/<name>:<tag>"
        yield _complaint("container.image", what, hint)
    elif region is not None and where != region:
        what = f"is in {where}, and the endpoint in {region}: SageMaker takes images of its own region"
        yield _complaint("container.image", what, f"copy it to {region}", "endpoint.region")


def _host(recipe: Recipe) -> Iterator[Complaint]:
    wish, machines = recipe.container.host_ami, chosen(recipe)
    if wish is not None and machines and all(machine.kind != _HOSTS[wish][0] for machine in machines):
        devices = "GPUs" if _HOSTS[wish][0] == "gpu" else "Neuron devices"
        what = f"{wish} is for {devices}, and {machines[0].name} has none"
        yield _complaint("container.host_ami", what, "leave it out", "instance_type")


def _driver(recipe: Recipe) -> Iterator[Complaint]:
    wish, region = recipe.container.host_ami, recipe.endpoint.region or _ANY_REGION
    if wish is None or _refused(recipe, region):
        return
    image = image_of(recipe, region)
    (kind, driven), wanted = _HOSTS[wish], cuda_of(image)
    if kind == "gpu" and wanted is not None and wanted in _HOST_OF_CUDA and wanted != driven:
        # Seen: the newer image crashes before its first log line, the older one stays in Creating without a log
        # (aws/sagemaker-python-sdk#6281, aws/deep-learning-containers#6187).
        what = f"drives CUDA {driven}, and the image {image.rpartition('/')[2]} wants CUDA {wanted}"
        hint = f"leave it out, or use {_HOST_OF_CUDA[wanted]}"
        yield _complaint("container.host_ami", what, hint, "container.version", "container.image", "engine")


def _complaint(path: str, what: str, hint: str, *beside: str) -> Complaint:
    return Complaint(path=path, what=what, hint=hint, beside=beside)


RULES: tuple[Rule, ...] = (_version, _registry, _host, _driver)
