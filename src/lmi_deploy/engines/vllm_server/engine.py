"""vLLM's own OpenAI server: `vllm serve` in AWS's plain vLLM images, without DJLServing.

The image's entry point makes an argument of each variable SM_VLLM_*: SM_VLLM_MAX_MODEL_LEN=4096 is
`--max-model-len 4096`, and a variable without a value is a flag (aws/deep-learning-containers,
vllm/build_artifacts/sagemaker_entrypoint.sh, 2026-11-23). /invocations takes each of vLLM's requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lmi_deploy.catalog.instances import Kind
from lmi_deploy.domain.deployment_artifact import SLOT, ArtifactFile
from lmi_deploy.domain.deployment_spec import EngineSpec, HandlerSpec, Spec
from lmi_deploy.domain.environment_setup import LocalSetup
from lmi_deploy.domain.gathered_facts import Machine
from lmi_deploy.domain.inference_http import HttpRequest, InferenceRequest, ResponseHead
from lmi_deploy.domain.recipe_endpoint_keys import RuntimeName
from lmi_deploy.domain.recipe_keys import Engine, Handler, Pairs, Recipe, Task
from lmi_deploy.domain.sagemaker.resource_settings import Delivery
from lmi_deploy.engines import image_server
from lmi_deploy.engines.engine import Decoder
from lmi_deploy.engines.response_stream_decoder import read_json, read_line, response_decoder
from lmi_deploy.errors import Unresolvable, UsageRefused

name: Final[Engine] = "vllm-server"
family: Final = "vllm"
devices: Final[tuple[Kind, ...]] = ("gpu",)
local_runtimes: Final[tuple[RuntimeName, ...]] = ()
deliveries: Final[tuple[Delivery, ...]] = image_server.DELIVERIES
templates: Final[tuple[str, ...]] = ()

_PREFIX: Final = "SM_VLLM_"
_NOT_SERVED: Final[tuple[Task, ...]] = ("text2text-generation", "question-answering")


def handler(engine: Handler, task: Task | None, *, version: str = "") -> HandlerSpec:
    if task in _NOT_SERVED:
        raise Unresolvable(
            f"task {task}: vLLM's server has no request for it", hint="use engine: accelerate, which has"
        )
    return image_server.image_handler(name, engine)


def packages(handler: HandlerSpec) -> tuple[str, ...]:
    return ()


def properties(
    handler: HandlerSpec,
    options: Pairs,
    *,
    task: Task | None,
    tensor_parallel_degree: int,
    version: str = "",
) -> Pairs:
    own = (("model", SLOT), ("tensor_parallel_size", str(tensor_parallel_degree)))
    return image_server.merged(own, options)


def artifact(spec: Spec) -> tuple[ArtifactFile, ...]:
    return image_server.marker_artifact(spec)


def environment(spec: EngineSpec) -> Pairs:
    return image_server.prefixed(_PREFIX, tuple(_flags(spec.properties)))


def local_setup(spec: EngineSpec, recipe: Recipe, machine: Machine) -> LocalSetup:
    return LocalSetup(packages=spec.packages)


def probe(handler: HandlerSpec, task: Task | None) -> InferenceRequest | None:
    if task in ("text-embedding", "text-classification"):
        return InferenceRequest(prompt="OK", chat=False)
    return InferenceRequest(prompt="Say OK", parameters={"max_tokens": 8, "temperature": 0})


def encode(request: InferenceRequest, handler: HandlerSpec, task: Task | None) -> HttpRequest:
    if request.body is None and task in ("text-embedding", "text-classification"):
        if request.system or request.history or request.images or request.stream:
            raise UsageRefused(
                f"this deployment has task {task}, which takes a single text",
                hint='send a single text: lmi invoke NAME "your text"',
            )
        return image_server.encode_json({"input": request.prompt, **request.parameters})
    return image_server.encode_body(request)


def decoder(head: ResponseHead, prompt: InferenceRequest, handler: HandlerSpec) -> Decoder:
    return response_decoder(head, full=read_json, line=read_line)


def _flags(settings: Pairs) -> Iterator[tuple[str, str]]:
    """vLLM's switches have no value: `--enforce-eager`, and `--no-enforce-eager` for false."""
    for key, value in settings:
        if value.lower() in ("true", "false"):
            yield key if value.lower() == "true" else f"no_{key}", ""
        else:
            yield key, value
