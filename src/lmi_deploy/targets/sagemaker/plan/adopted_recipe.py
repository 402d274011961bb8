"""What `lmi adopt` writes into a recipe: the settings of an endpoint that another tool made, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from lmi_deploy.catalog import images
from lmi_deploy.catalog.server_version import server_version
from lmi_deploy.domain.recipe_keys import Engine
from lmi_deploy.domain.sagemaker.foreign_endpoint import ForeignEndpoint, ForeignEndpointConfig, ModelFiles
from lmi_deploy.domain.sagemaker.resource_settings import MODEL_FOLDER, VARIANT
from lmi_deploy.errors import Unresolvable
from lmi_deploy.recipe.import_settings import ImportSource
from lmi_deploy.targets.sagemaker.validate.images import repository_of

_DJL: Final = "djl-inference"
_ENGINES: Final[Mapping[str, tuple[Engine, str]]] = {
    "vllm": ("vllm-server", "vllm"),
    "sglang": ("sglang", "sglang"),
    "tei": ("tei", "huggingface-tei"),
    "tei-cpu": ("tei", "huggingface-tei"),
    "huggingface-pytorch-inference": ("accelerate", ""),
    "huggingface-pytorch-tgi-inference": ("vllm", ""),
}
"""By repository of AWS's images: the engine, and the family that contains this server; empty: none does."""
_PREFIXES: Final[Mapping[str, str]] = {"vllm-server": "SM_VLLM_", "sglang": "SM_SGLANG_"}
_MODELS: Final = ("option.model", "option.model_path")
_TGI: Final[Mapping[str, str]] = {
    "SM_NUM_GPUS": "TENSOR_PARALLEL_DEGREE",
    "MAX_TOTAL_TOKENS": "OPTION_MAX_MODEL_LEN",
    "MAX_CONCURRENT_REQUESTS": "OPTION_MAX_ROLLING_BATCH_SIZE",
}
"""Variables of Text Generation Inference, and those of DJLServing with the same meaning."""
_OF_TOOLKITS: Final = ("SAGEMAKER_PROGRAM", "SAGEMAKER_SUBMIT_DIRECTORY", "SAGEMAKER_CONTAINER_LOG_LEVEL")
"""Of SageMaker's other inference toolkits, which the SDK sets in every model."""
_FORMATS: Final = "compare a response of the new server with one of the old before you move clients"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Server:
    """What the image says: `container` are keys of the recipe, `version` that of DJLServing."""

    engine: Engine | None
    container: Mapping[str, str]
    version: str
    notes: tuple[str, ...] = ()


def adopted_source(foreign: ForeignEndpoint, files: ModelFiles) -> tuple[ImportSource, str]:
    """The source of the recipe, and the version of DJLServing; empty: that of the newest."""
    server = _server(foreign)
    settings, environment, notes = _variables(foreign, server.engine)
    config = foreign.config.settings
    host = {"host_ami": config.host_ami} if config.host_ami else {}
    container = {**server.container, **host} if server.container else {}
    source = ImportSource(
        origin=f"the endpoint {foreign.endpoint.name} in {foreign.region}",
        name=foreign.endpoint.name,
        properties={
            key: value for key, value in {**files.properties, **settings}.items() if not _is_inside(value)
        },
        environment=environment,
        model_py=files.model_py,
        requirements=files.requirements,
        weights=files.weights,
        other_files=files.other_files,
        command="adopt",
        engine=server.engine,
        container=container,
        timeouts={
            key: seconds
            for key, seconds in (
                ("model_download", config.model_download),
                ("container_startup", config.startup),
            )
            if seconds
        },
        endpoint=dict(_endpoint(foreign)),
        notes=(*server.notes, *notes, *files.notes, *_left_out(foreign)),
    )
    return source, server.version


def _server(foreign: ForeignEndpoint) -> _Server:
    image, region = foreign.model.settings.image, foreign.region
    found = repository_of(image)
    account, _, repository = found or ("", "", "")
    is_aws = account in images.accounts(region)
    tag = image.rpartition(":")[2]
    if repository == _DJL and is_aws:
        version, _ = server_version(None, image)
        if version and tag in images.tags(_DJL):
            return _Server(engine=None, container={"version": tag}, version=version)
        return _Server(
            engine=None,
            container={"image": image},
            version=version,
            notes=(f"lmi's table of images has no {_DJL}:{tag}: the recipe names the image itself",),
        )
    if is_aws and repository in _ENGINES:
        engine, family = _ENGINES[repository]
        if not family:
            return _Server(
                engine=engine,
                container={},
                version="",
                notes=(
                    f"the image {repository}:{tag} is not DJLServing: the next `lmi up` replaces its server by engine "
                    f"{engine} of DJLServing; {_FORMATS}",
                ),
            )
        known = _known_version(family, tag, region)
        notes = (
            ()
            if known
            else (f"lmi's table of images has no {repository}:{tag}: the recipe takes the newest",)
        )
        return _Server(
            engine=engine,
            container={"version": known or images.latest(family)},
            version="",
            notes=notes,
        )
    return _Server(
        engine=None,
        container={"image": image},
        version="",
        notes=(
            f"the image {image} is not AWS's: lmi takes it for one with DJLServing. If it contains a server of its "
            "own, set engine: custom and remove handler",
        ),
    )


def _known_version(family: str, tag: str, region: str) -> str:
    try:
        return images.image(family, tag, region).version
    except Unresolvable:
        return ""


def _variables(
    foreign: ForeignEndpoint, engine: Engine | None
) -> tuple[dict[str, str], dict[str, str], tuple[str, ...]]:
    """Options of a server with arguments of its own, the other variables, and notes."""
    variables = {
        name: value
        for name, value in foreign.model.settings.environment
        if name not in _OF_TOOLKITS and not _is_inside(value)
    }
    is_tgi = "tgi-inference" in foreign.model.settings.image
    if is_tgi:
        variables = {_TGI.get(name, name): value for name, value in variables.items()}
    prefix = _PREFIXES.get(engine or "")
    if not prefix:
        return {}, variables, ()
    options = {
        f"option.{name.removeprefix(prefix).lower()}": variables.pop(name)
        for name in [*variables]
        if name.startswith(prefix)
    }
    model = next((options.pop(key) for key in _MODELS if options.get(key)), "")
    return {**options, **({"option.model_id": model} if model else {})}, variables, ()


def _is_inside(value: str) -> bool:
    """Whether it is a path in the container: the folder to which SageMaker copies the model's files."""
    return value.startswith(MODEL_FOLDER)


def _endpoint(foreign: ForeignEndpoint) -> Iterator[tuple[str, object]]:
    config, model, scaling = foreign.config.settings, foreign.model.settings, foreign.scaling
    count = foreign.endpoint.desired_count or config.count
    yield "region", foreign.region
    if model.role:
        yield "role", model.role
    if scaling is not None and scaling.invocations:
        yield (
            "autoscaling",
            {"min": scaling.least, "max": scaling.most, "invocations_per_instance": scaling.invocations},
        )
    else:
        yield "count", count
    if pools := config.instance_pools:
        # Without a time-out SageMaker has one of its own, which no response shows.
        given = {"provision_timeout": pools.provision_timeout} if pools.provision_timeout else {}
        yield "instance_pools", given
    if config.volume_gb:
        yield "volume_gb", config.volume_gb
    if config.kms_key:
        yield "kms_key", config.kms_key
    if model.network_isolation:
        yield "network_isolation", True
    if model.vpc is not None:
        yield (
            "vpc",
            {"subnets": list(model.vpc.subnets), "security_groups": list(model.vpc.security_groups)},
        )
    yield from _outputs(foreign.config)
    tags = {
        key: value
        for key, value in foreign.tags_of(foreign.endpoint.arn).items()
        if not key.startswith(("aws:", "lmi:"))
    }
    if tags:
        yield "tags", tags


def _outputs(config: ForeignEndpointConfig) -> Iterator[tuple[str, object]]:
    """Where it writes to S3."""
    queue, capture = config.settings.asynchronous, config.settings.data_capture
    if queue is not None:
        named = {
            "output": queue.output,
            "max_concurrent_per_instance": queue.max_concurrent_per_instance,
            "success_topic": queue.success_topic,
            "error_topic": queue.error_topic,
            "kms_key": queue.kms_key,
        }
        yield "asynchronous", {key: value for key, value in named.items() if value}
    if capture is not None:
        found = {
            "output": capture.output,
            "percentage": capture.percentage,
            "content": capture.content,
            "kms_key": capture.kms_key,
        }
        yield "data_capture", {key: value for key, value in found.items() if value}


def _left_out(foreign: ForeignEndpoint) -> Iterator[str]:
    """What the next `lmi up` would not keep."""
    others = (*foreign.config.not_read, *foreign.model.not_read)
    if others:
        yield f"a recipe has no key for, and the next `lmi up` does not keep: {', '.join(others)}"
    variant = foreign.endpoint.variant
    if foreign.config.variants and variant != VARIANT:
        yield (
            f"the variant {variant} becomes {VARIANT} with the next `lmi up`: CloudWatch's metrics and alarms name it, "
            "and clients that send TargetVariant"
        )
    scaling = foreign.scaling
    if scaling is not None and not scaling.invocations:
        yield (
            f"it is scaled from {scaling.least} to {scaling.most} instances by {', '.join(scaling.policies) or 'hand'}"
            ", which the recipe does not contain: add endpoint.autoscaling, or the next `lmi up` ends the scaling"
        )
    elif scaling is not None and scaling.policies:
        yield f"scaling policies that the recipe does not contain: {', '.join(scaling.policies)}"
