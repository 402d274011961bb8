"""DeepSpeed in the djl-deepspeed images (DJLServing 0.19 to 0.27): tensor parallel on GPUs, kernels of its own for GPT
models.

The handler answers `[{"generated_text": text}]`; with text-generation the text begins with the prompt (0.24).
"""

from __future__ import annotations

from typing import Final

from lmi_deploy.catalog.instances import Kind
from lmi_deploy.catalog.server_version import order
from lmi_deploy.domain.deployment_artifact import ArtifactFile
from lmi_deploy.domain.deployment_spec import EngineSpec, HandlerSpec, Spec
from lmi_deploy.domain.environment_setup import LocalSetup
from lmi_deploy.domain.gathered_facts import Machine
from lmi_deploy.domain.inference_http import HttpRequest, InferenceRequest, ResponseHead
from lmi_deploy.domain.recipe_endpoint_keys import RuntimeName
from lmi_deploy.domain.recipe_keys import Engine, Handler, Pairs, Recipe, Task
from lmi_deploy.domain.sagemaker.resource_settings import Delivery
from lmi_deploy.engines import djl_text, huggingface
from lmi_deploy.engines.djl_artifact import DELIVERIES, ENVIRONMENT, djl_artifact
from lmi_deploy.engines.engine import Decoder
from lmi_deploy.engines.property_merge import with_options

name: Final[Engine] = "deepspeed"
family: Final = "djl-deepspeed"
devices: Final[tuple[Kind, ...]] = ("gpu",)
local_runtimes: Final[tuple[RuntimeName, ...]] = ()
deliveries: Final[tuple[Delivery, ...]] = DELIVERIES
templates: Final[tuple[str, ...]] = ()

MODULE: Final = "djl_python.deepspeed"
_TASKS: Final[tuple[Task, ...]] = (
    "text-generation",
    "text2text-generation",
    "text-classification",
    "question-answering",
)
_ROLLING_SINCE: Final = (0, 25)
"""Servers from here on may choose a rolling batch themselves, which changes the form of the response."""


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
        ("engine", "DeepSpeed"),
        ("option.entryPoint", handler.entry_point),
        djl_text.model_line(version),
        ("option.tensor_parallel_degree", str(tensor_parallel_degree)),
    ]
    if order(version) >= _ROLLING_SINCE:
        own.append(("option.rolling_batch", "disable"))
    if task and handler.entry_point == MODULE:
        own.append(("option.task", task))
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
    return huggingface.decoder(head, request)
