"""FasterTransformer in the djl-fastertransformer images (DJLServing 0.21 to 0.24): T5 and GPT models, tensor and
pipeline parallel on GPUs.

The handler answers `[{"generated_text": text}]`. It knows `max_new_tokens`, `num_beams` and `length_penalty`, and
passes every other parameter to `pipeline_generate`: beam_width 1, max_seq_len 200, top_k 1, top_p 0.0, temperature
1.0, len_penalty 0.0, repetition_penalty 1.0 ... by default.
"""

from __future__ import annotations

from typing import Final

from lmi_deploy.catalog.instances import Kind
from lmi_deploy.domain.deployment_artifact import ArtifactFile
from lmi_deploy.domain.deployment_spec import EngineSpec, HandlerSpec, Spec
from lmi_deploy.domain.environment_setup import LocalSetup
from lmi_deploy.domain.gathered_facts import Machine
from lmi_deploy.domain.inference_http import HttpRequest, InferenceRequest, ResponseHead
from lmi_deploy.domain.recipe_endpoint_keys import RuntimeName
from lmi_deploy.domain.recipe_keys import Engine, Handler, Pairs, Recipe, Task
from lmi_deploy.domain.sagemaker.resource_settings import Delivery
from lmi_deploy.engines import djl_text
from lmi_deploy.engines.djl_artifact import DELIVERIES, ENVIRONMENT, djl_artifact
from lmi_deploy.engines.engine import Decoder
from lmi_deploy.engines.property_merge import with_options
from lmi_deploy.engines.response_stream_decoder import read_json, read_line, response_decoder

name: Final[Engine] = "fastertransformer"
family: Final = "djl-fastertransformer"
devices: Final[tuple[Kind, ...]] = ("gpu",)
local_runtimes: Final[tuple[RuntimeName, ...]] = ()
deliveries: Final[tuple[Delivery, ...]] = DELIVERIES
templates: Final[tuple[str, ...]] = ()

MODULE: Final = "djl_python.fastertransformer"
_TASKS: Final[tuple[Task, ...]] = ("text2text-generation", "text-generation")


def handler(engine: Handler, task: Task | None, *, version: str = "") -> HandlerSpec:
    return djl_text.choose_handler(engine, task, name=name, default=MODULE, tasks=_TASKS, version=version)


def packages(handler: HandlerSpec) -> tuple[str, ...]:
    """None: the image contains the engine, and of our runtimes only `container` runs it."""
    return ()


def properties(
    handler: HandlerSpec,
    options: Pairs,
    *,
    task: Task | None,
    tensor_parallel_degree: int,
    version: str = "",
) -> Pairs:
    own = [
        ("engine", "FasterTransformer"),
        ("option.entryPoint", handler.entry_point),
        djl_text.model_line(version),
        ("option.tensor_parallel_degree", str(tensor_parallel_degree)),
    ]
    return with_options(own, options)


def artifact(spec: Spec) -> tuple[ArtifactFile, ...]:
    return djl_artifact(spec)


def environment(spec: EngineSpec) -> Pairs:
    return ENVIRONMENT


def local_setup(spec: EngineSpec, recipe: Recipe, machine: Machine) -> LocalSetup:
    return LocalSetup(packages=spec.packages)


def probe(handler: HandlerSpec, task: Task | None) -> InferenceRequest | None:
    return djl_text.probe(task)


def encode(request: InferenceRequest, handler: HandlerSpec, task: Task | None) -> HttpRequest:
    return djl_text.encode(request, chat=False)


def decoder(head: ResponseHead, request: InferenceRequest, handler: HandlerSpec) -> Decoder:
    return response_decoder(head, full=read_json, line=read_line)
