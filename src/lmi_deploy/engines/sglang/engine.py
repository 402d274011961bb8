"""SGLang's own server in AWS's images, without DJLServing.

The image's entry point makes an argument of each variable SM_SGLANG_*: SM_SGLANG_CONTEXT_LENGTH=4096 is
`--context-length 4096`; `true` is a flag, `false` is left out (aws/deep-learning-containers, SGLang's
sagemaker_entrypoint.sh, 2026-11-23). /invocations takes OpenAI's chat requests only (SGLang's http_server.py).
"""

from __future__ import annotations

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

name: Final[Engine] = "sglang"
family: Final = "sglang"
devices: Final[tuple[Kind, ...]] = ("gpu",)
local_runtimes: Final[tuple[RuntimeName, ...]] = ()
deliveries: Final[tuple[Delivery, ...]] = image_server.DELIVERIES
templates: Final[tuple[str, ...]] = ()

_PREFIX: Final = "SM_SGLANG_"


def handler(engine: Handler, task: Task | None, *, version: str = "") -> HandlerSpec:
    if task not in (None, "text-generation"):
        raise Unresolvable(
            f"task {task}: SGLang's /invocations takes chat requests only",
            hint="use engine: vllm-server, tei or accelerate",
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
    own = (("model_path", SLOT), ("tp_size", str(tensor_parallel_degree)))
    return image_server.merged(own, options)


def artifact(spec: Spec) -> tuple[ArtifactFile, ...]:
    return image_server.marker_artifact(spec)


def environment(spec: EngineSpec) -> Pairs:
    return image_server.prefixed(_PREFIX, spec.properties)


def local_setup(spec: EngineSpec, recipe: Recipe, machine: Machine) -> LocalSetup:
    return LocalSetup(packages=spec.packages)


def probe(handler: HandlerSpec, task: Task | None) -> InferenceRequest | None:
    return InferenceRequest(prompt="Say OK", parameters={"max_tokens": 8, "temperature": 0})


def encode(request: InferenceRequest, handler: HandlerSpec, task: Task | None) -> HttpRequest:
    if request.body is None and not request.chat and not request.system:
        raise UsageRefused(
            "SGLang's /invocations takes chat requests only, no completions",
            hint="send the text as a chat, without --no-chat",
        )
    return image_server.encode_body(request)


def decoder(head: ResponseHead, prompt: InferenceRequest, handler: HandlerSpec) -> Decoder:
    return response_decoder(head, full=read_json, line=read_line)
