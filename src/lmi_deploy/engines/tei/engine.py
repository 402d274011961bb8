"""Text Embeddings Inference (TEI): vectors, classes and rankings of texts, on a GPU or a CPU.

Its entry point reads HF_MODEL_ID, and the router each of its arguments from a variable of the same name
(huggingface/text-embeddings-inference, sagemaker-entrypoint.sh and router/src/main.rs, read on 2026-11-23).
/invocations is /embed, /predict or /rerank, depending on the model.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from lmi_deploy.catalog.instances import Kind
from lmi_deploy.domain.deployment_artifact import SLOT
from lmi_deploy.domain.deployment_spec import EngineSpec, HandlerSpec
from lmi_deploy.domain.inference_http import InferenceRequest, ResponseHead
from lmi_deploy.domain.recipe_keys import Engine, Handler, Pairs, Task
from lmi_deploy.engines import image_server
from lmi_deploy.engines import template_handlers as ours
from lmi_deploy.engines.engine import Decoder, EngineInputs
from lmi_deploy.engines.image_server import ImageServer
from lmi_deploy.errors import Unresolvable

_MODEL: Final = "hf_model_id"
OPTIONS: Final = (
    *("auto_truncate", "default_prompt", "default_prompt_name", "dtype", "max_batch_requests"),
    *("max_batch_tokens", "max_client_batch_size", "max_concurrent_requests", "payload_limit", "pooling"),
    "tokenization_workers",
)
"""Arguments of TEI's router that matter on SageMaker. Its defaults: 512 concurrent requests, 16384 tokens a batch, 32
inputs a request, 2,000,000 bytes (router/src/main.rs).
"""
_TASKS: Final[tuple[Task, ...]] = ("text-embedding", "text-classification")


class TextEmbeddingsInference(ImageServer):
    name: ClassVar[Engine] = "tei"
    family: ClassVar[str] = "huggingface-tei"
    devices: ClassVar[tuple[Kind, ...]] = ("gpu", "cpu")

    def handler(self, engine: Handler, task: Task | None, *, version: str = "") -> HandlerSpec:
        if task is not None and task not in _TASKS:
            raise Unresolvable(
                f"task {task}: TEI does not generate text", hint=f"use one of {', '.join(_TASKS)}"
            )
        return image_server.image_handler(self.name, engine)

    def properties(self, chosen: EngineInputs) -> Pairs:
        settings = image_server.merged(((_MODEL, SLOT),), chosen.options)
        for key, _ in settings:
            if key not in (_MODEL, *OPTIONS):
                raise Unresolvable(
                    f"options.{key}: unknown to engine tei", hint=f"it reads {', '.join(sorted(OPTIONS))}"
                )
        return settings

    def environment(self, spec: EngineSpec) -> Pairs:
        return image_server.prefixed("", spec.properties)

    def probe(self, handler: HandlerSpec, task: Task | None) -> InferenceRequest | None:
        return InferenceRequest(prompt="OK", chat=False)

    def body(self, request: InferenceRequest, handler: HandlerSpec, task: Task | None) -> dict[str, Any]:
        return {"inputs": ours.body(request, "text-embedding")["inputs"], **request.parameters}

    def decoder(self, head: ResponseHead, request: InferenceRequest, handler: HandlerSpec) -> Decoder:
        return ours.decoder(head, request, "text-classification")


ENGINE: Final = TextEmbeddingsInference()
