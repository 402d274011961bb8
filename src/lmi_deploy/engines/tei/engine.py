"""Text Embeddings Inference (TEI): vectors, classes and rankings of texts, on a GPU or a CPU.

Its entry point reads HF_MODEL_ID, and the router each of its arguments from a variable of the same name
(huggingface/text-embeddings-inference, sagemaker-entrypoint.sh and router/src/main.rs, 2026-11-23). /invocations is
/embed, /predict or /rerank, depending on the model.
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
from lmi_deploy.engines import template_handlers as ours
from lmi_deploy.engines.engine import Decoder
from lmi_deploy.errors import Unresolvable

name: Final[Engine] = "tei"
family: Final = "huggingface-tei"
devices: Final[tuple[Kind, ...]] = ("gpu", "cpu")
local_runtimes: Final[tuple[RuntimeName, ...]] = ()
deliveries: Final[tuple[Delivery, ...]] = image_server.DELIVERIES
templates: Final[tuple[str, ...]] = ()

_MODEL: Final = "hf_model_id"
OPTIONS: Final = (
    *("auto_truncate", "default_prompt", "default_prompt_name", "dtype", "max_batch_requests"),
    *("max_batch_tokens", "max_client_batch_size", "max_concurrent_requests", "payload_limit", "pooling"),
    "tokenization_workers",
)
"""Arguments of TEI's router that matter on SageMaker."""
_TASKS: Final[tuple[Task, ...]] = ("text-embedding", "text-classification")


def handler(engine: Handler, task: Task | None, *, version: str = "") -> HandlerSpec:
    if task is not None and task not in _TASKS:
        raise Unresolvable(f"task {task}: TEI does not generate text", hint=f"use one of {', '.join(_TASKS)}")
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
    settings = image_server.merged(((_MODEL, SLOT),), options)
    for key, _ in settings:
        if key not in (_MODEL, *OPTIONS):
            raise Unresolvable(
                f"options.{key}: unknown to engine tei", hint=f"it reads {', '.join(sorted(OPTIONS))}"
            )
    return settings


def artifact(spec: Spec) -> tuple[ArtifactFile, ...]:
    return image_server.marker_artifact(spec)


def environment(spec: EngineSpec) -> Pairs:
    return image_server.prefixed("", spec.properties)


def local_setup(spec: EngineSpec, recipe: Recipe, machine: Machine) -> LocalSetup:
    return LocalSetup(packages=spec.packages)


def probe(handler: HandlerSpec, task: Task | None) -> InferenceRequest | None:
    return InferenceRequest(prompt="OK", chat=False)


def encode(request: InferenceRequest, handler: HandlerSpec, task: Task | None) -> HttpRequest:
    if request.body is not None:
        return image_server.encode_body(request)
    body = ours.body(request, "text-embedding")
    return image_server.encode_json({"inputs": body["inputs"], **request.parameters})


def decoder(head: ResponseHead, prompt: InferenceRequest, handler: HandlerSpec) -> Decoder:
    return ours.decoder(head, prompt, "text-classification")
