"""The container image and the host image: which one, its source, and whether their CUDA versions match."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lmi_deploy.catalog import amis, images, vllm_arguments
from lmi_deploy.catalog.instances import Instance, chosen
from lmi_deploy.catalog.server_version import (
    MODEL_ID_SINCE,
    engine_image,
    order,
    recipe_server,
    require_engine,
    server_tag,
)
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.engines.registry import ENGINES
from lmi_deploy.errors import Unresolvable
from lmi_deploy.recipe.checks.issue import Issue, Rule
from lmi_deploy.targets.sagemaker.validate.devices import in_words

_ECR = re.compile(r"([0-9]{12})\.dkr\.ecr(?:-fips)?\.([a-z0-9-]+)\.[a-z0-9.-]+/([^\s:@]+)([:@]\S+)?")
_TURING, _HOPPER, _BLACKWELL = 7.5, 9.0, 10.0
"""Compute capabilities. TEI has no kernel for older GPUs than Turing (its page "Supported models and hardware")."""
_NEWER = "use a newer type such as ml.g5.xlarge"
_ANY_REGION = "us-east-1"
"""The list of all published images."""


def image_of(recipe: Recipe, region: str) -> str:
    """The recipe's own, else AWS's for engine, version and region. Raises Unresolvable if there is none."""
    if recipe.container.image:
        return recipe.container.image
    return engine_image(
        recipe.engine, recipe.container.version or "", region, device=_image_device(recipe)
    ).uri


def _image_device(recipe: Recipe) -> str:
    """For an engine that AWS publishes for several devices."""
    return "cpu" if {machine.kind for machine in chosen(recipe)} == {"cpu"} else "gpu"


def host_of(recipe: Recipe, image: str, machine: Instance) -> str:
    """The recipe's host image if it has such devices, else that of the image's CUDA; else SageMaker's."""
    engine = recipe.container.host_ami
    if engine and amis.AMIS[engine].kind == machine.kind:
        return engine
    return amis.required_ami(cuda_of(image), machine.kind)


def cuda_of(image: str) -> str:
    """The version in the tag; empty if it contains none."""
    return images.cuda(image.rpartition(":")[2])


def region_of(image: str) -> str | None:
    """The region of the registry; None if it is not an ECR registry."""
    found = repository_of(image)
    return found[1] if found else None


def repository_of(image: str) -> tuple[str, str, str] | None:
    """Account, region and name of a repository in ECR; None if it is not in ECR."""
    found = _ECR.fullmatch(image)
    return (found[1], found[2], found[3]) if found else None


def _version(recipe: Recipe) -> Iterator[Issue]:
    version, region = recipe.container.version, recipe.endpoint.region
    if recipe.container.image is not None:
        if version is not None:
            what = "cannot be combined with container.image, which has its own"
            yield _complaint("container.version", what, "omit it", "container.image")
        elif refusal := _without_engine(recipe):
            yield _complaint("container.image", refusal.message, refusal.hint, "engine")
    elif refusal := _refused(recipe, _ANY_REGION):
        path = "engine" if version is None else "container.version"
        yield _complaint(path, refusal.message, refusal.hint, "engine")
    elif region is not None and (refusal := _refused(recipe, region)):
        yield _complaint("endpoint.region", refusal.message, refusal.hint, "container.version", "engine")


def _without_engine(recipe: Recipe) -> Unresolvable | None:
    try:
        require_engine(recipe.engine, server_tag(None, recipe.container.image))
    except Unresolvable as refusal:
        return refusal
    return None


def problem_in(recipe: Recipe, region: str) -> str:
    """Why the recipe has no image in a region, in words; empty if it has one, or none anywhere."""
    image = recipe.container.image
    if image is not None:
        where = region_of(image)
        return f"container.image is in {where}, not in {region}" if where not in (None, region) else ""
    if _refused(recipe, _ANY_REGION):
        return ""
    refusal = _refused(recipe, region)
    return f"{region}: {refusal.message}" if refusal else ""


def _refused(recipe: Recipe, region: str) -> Unresolvable | None:
    try:
        image_of(recipe, region)
    except Unresolvable as refusal:
        return refusal
    return None


def _old_delivery(recipe: Recipe) -> Iterator[Issue]:
    """`option.s3url`, the spelling of such servers, names nothing but S3."""
    server = recipe_server(recipe)
    if server is None or order(str(server)) >= MODEL_ID_SINCE:
        return
    mounted = recipe.weights.deliver in ("mount", "artifact")
    if mounted or recipe.endpoint.network_isolation:
        path = "weights.deliver" if mounted else "endpoint.network_isolation"
        what = f"a server of version {server} gets its weights from S3 alone"
        yield _complaint(
            path, what, "omit it, or write container.version: 0.22.1 or newer", "container.version"
        )


def _registry(recipe: Recipe) -> Iterator[Issue]:
    image, region = recipe.container.image, recipe.endpoint.region
    if image is None:
        return
    where = region_of(image)
    if where is None:
        what = f"{image} is not in ECR; SageMaker accepts only images in ECR"
        hint = "push it to ECR: <account>.dkr.ecr.<region>.amazonaws.com/<name>:<tag>"
        yield _complaint("container.image", what, hint)
    elif region is not None and where != region:
        what = f"is in {where}, but the endpoint is in {region}; SageMaker accepts only images in the same region"
        yield _complaint("container.image", what, f"copy it to {region}", "endpoint.region")


def _hardware(recipe: Recipe) -> Iterator[Issue]:
    """AWS's own images of these engines are for x86 processors and NVIDIA's GPUs."""
    if recipe.container.image is not None or _refused(recipe, _ANY_REGION):
        return
    unsupported = {machine.name: _unsupported_devices(recipe, machine) for machine in chosen(recipe)}
    if any(unsupported.values()):
        have = ", ".join(f"{name} has {what}" for name, what in unsupported.items() if what)
        family = ENGINES[recipe.engine].family
        what = f"{have}, but the images of {family} need x86 processors and NVIDIA GPUs"
        yield _complaint("instance_type", what, "name a suitable image in container.image", "engine")


def _unsupported_devices(recipe: Recipe, machine: Instance) -> str:
    """Devices of the instance that the image does not support, although the engine itself would."""
    if recipe.engine == "custom" and machine.kind in ("neuron", "gaudi"):
        return in_words(machine)
    is_wrong = machine.kind not in ENGINES[recipe.engine].devices  # `devices.py` says so
    return "an Arm processor" if machine.architecture == "arm64" and not is_wrong else ""


def least_capability(recipe: Recipe) -> float | None:
    """The lowest compute capability for which the engine in the recipe's image has kernels; None: unknown."""
    if recipe.engine == "tei":
        return _TURING
    server = recipe_server(recipe) if recipe.engine == "vllm" else None
    return vllm_arguments.least_capability(server.image) if server and server.image else None


def _gpus(recipe: Recipe) -> Iterator[Issue]:
    """A GPU that the image's CUDA, or its engine, does not know: no kernel of it runs there."""
    known = recipe.container.image is None and not _refused(recipe, _ANY_REGION)
    cuda = cuda_of(image_of(recipe, _ANY_REGION)) if known else ""
    least = least_capability(recipe)
    for machine in chosen(recipe):
        existing = machine.accelerators
        capability = existing.compute_capability if existing else None
        if existing is None or capability is None:
            continue
        has = f"{machine.name} has {existing.name}"
        if cuda.startswith("13.") and capability < _TURING:
            older = "write container.version: 0.35.0, whose CUDA is 12.8, or " * (recipe.engine == "vllm")
            what, hint = f"{has}, which CUDA {cuda} of the image no longer supports", f"{older}{_NEWER}"
        elif cuda and _numbers(cuda) < _numbers(_cuda_since(capability)):
            what = (
                f"{has}, which CUDA {cuda} of the image does not know yet: it needs {_cuda_since(capability)}"
            )
            hint = "use an older type such as ml.g5.xlarge, or a newer image"
        elif least is not None and capability < least:
            engine = (
                f"the vLLM of the image {recipe_server(recipe)}" if recipe.engine == "vllm" else recipe.engine
            )
            what = f"{has}, of compute capability {capability:.1f}, and {engine} is built for {least:.1f} and newer"
            hint = f"{_NEWER}, or engine: accelerate"
        else:
            continue
        yield _complaint("instance_type", what, hint, "container.version", "container.image", "engine")
        return


def _cuda_since(capability: float) -> str:
    """The first CUDA that compiles for such a GPU (NVIDIA's release notes): Hopper, and Blackwell."""
    return "12.8" if capability >= _BLACKWELL else "11.8" if capability >= _HOPPER else "0"


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def _host(recipe: Recipe) -> Iterator[Issue]:
    """In a list of instances the host image applies to those that have its devices."""
    engine, machines = recipe.container.host_ami, chosen(recipe)
    if engine is None or not machines:
        return
    region = recipe.endpoint.region or _ANY_REGION
    cuda = "" if _refused(recipe, region) else cuda_of(image_of(recipe, region))
    fitting = [machine for machine in machines if machine.kind == amis.AMIS[engine].kind]
    found = amis.mismatch(engine, cuda, (fitting or machines)[0])
    if found:
        better = amis.required_ami(cuda, machines[0].kind)
        hint = f"omit it: the default is {better}" if better else "omit it"
        extra = ("instance_type", "container.version", "container.image", "engine")
        yield _complaint("container.host_ami", found, hint, *extra)


def _complaint(path: str, what: str, hint: str, *extra: str) -> Issue:
    return Issue(path=path, what=what, hint=hint, depends_on=extra)


RULES: tuple[Rule, ...] = (_version, _old_delivery, _registry, _hardware, _gpus, _host)
