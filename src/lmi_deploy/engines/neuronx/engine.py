"""Transformers NeuronX in the djl-neuronx images (DJLServing 0.22 to 0.29): tensor parallel over the NeuronCores of
Inferentia2 and Trainium. The model is compiled at the start, for one batch, length and degree, unless
`compiled_graph_path` names the result of an earlier compilation.
"""

from __future__ import annotations

from typing import Final

from lmi_deploy.catalog.instances import Kind
from lmi_deploy.catalog.server_version import order
from lmi_deploy.domain.deployment_artifact import SLOT, ArtifactFile
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

name: Final[Engine] = "neuronx"
family: Final = "djl-neuronx"
devices: Final[tuple[Kind, ...]] = ("neuron",)
local_runtimes: Final[tuple[RuntimeName, ...]] = ()
deliveries: Final[tuple[Delivery, ...]] = DELIVERIES
templates: Final[tuple[str, ...]] = ()

MODULE: Final = "djl_python.transformers_neuronx"
_TASKS: Final[tuple[Task, ...]] = ("text-generation",)
_ROLLING_SINCE: Final = (0, 25)


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
        ("engine", "Python"),
        ("option.entryPoint", handler.entry_point),
        ("option.model_id", SLOT),
        ("option.tensor_parallel_degree", str(tensor_parallel_degree)),
    ]
    if order(version) >= _ROLLING_SINCE:
        own.append(("option.rolling_batch", "auto"))
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
    return djl_text.encode(request, chat=True)


def decoder(head: ResponseHead, request: InferenceRequest, handler: HandlerSpec) -> Decoder:
    return response_decoder(head, full=read_json, line=read_line)
