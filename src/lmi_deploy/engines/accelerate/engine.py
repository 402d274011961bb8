"""Transformers on a CPU or the GPUs of one machine: our handler, or DJL's own `djl_python.huggingface`."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from lmi_deploy.catalog.instances import Kind
from lmi_deploy.catalog.options import IMAGE_TEMPLATE
from lmi_deploy.domain.deployment_spec import HandlerSpec
from lmi_deploy.domain.djl_serving import IMAGE_FAMILY, MODEL_PY
from lmi_deploy.domain.inference_http import HttpRequest, InferenceRequest, ResponseHead
from lmi_deploy.domain.recipe_endpoint_keys import RuntimeName
from lmi_deploy.domain.recipe_keys import Engine, Handler, Pairs, Task
from lmi_deploy.engines import djl_huggingface
from lmi_deploy.engines import template_handlers as ours
from lmi_deploy.engines.djl_engine import DjlEngine
from lmi_deploy.engines.djl_text import model_line
from lmi_deploy.engines.engine import Decoder, EngineInputs
from lmi_deploy.engines.serving_properties import with_options
from lmi_deploy.errors import Unresolvable, UsageRefused

BASE: Final = (
    "accelerate==1.15.0",
    "protobuf==7.36.2",
    "sentencepiece==0.2.3",
    "torch==2.13.0",
    "transformers==4.57.6",
)
"""Tested together with DJL's engine 0.34.0 on Python 3.11. `device_map` needs accelerate; protobuf and sentencepiece
are for tokenizers that exist only as a SentencePiece file.
"""

VISION: Final = ("pillow==13.0.0", "torchvision==0.28.0")
"""Most processors of images and videos need both."""


class Accelerate(DjlEngine):
    name: ClassVar[Engine] = "accelerate"
    family: ClassVar[str] = IMAGE_FAMILY
    devices: ClassVar[tuple[Kind, ...]] = ("gpu", "cpu")
    local_runtimes: ClassVar[tuple[RuntimeName, ...]] = ("embedded", "djl-serving")
    templates: ClassVar[tuple[str, ...]] = ours.NAMES

    def handler(self, engine: Handler, task: Task | None, *, version: str = "") -> HandlerSpec:
        if engine.file:
            return HandlerSpec(entry_point=MODEL_PY, template=None)
        if engine.builtin:
            return HandlerSpec(entry_point=engine.builtin, template=None)
        if engine.template and engine.template not in self.templates:
            raise Unresolvable(
                f"handler.template: engine accelerate has no template {engine.template}",
                hint=f"use one of {', '.join(self.templates)}, or omit it",
            )
        chosen = engine.template or next((each for each in self.templates if each == task), None)
        if chosen:
            return HandlerSpec(entry_point=MODEL_PY, template=chosen)
        return HandlerSpec(entry_point=djl_huggingface.MODULE, template=None)

    def packages(self, handler: HandlerSpec) -> tuple[str, ...]:
        more: tuple[str, ...] = (
            djl_huggingface.PACKAGES if handler.entry_point == djl_huggingface.MODULE else ()
        )
        if handler.template == IMAGE_TEMPLATE:
            more = VISION
        return tuple(sorted({*BASE, *more}))

    def properties(self, chosen: EngineInputs) -> Pairs:
        own = [
            ("engine", "Python"),
            ("option.entryPoint", chosen.handler.entry_point),
            model_line(chosen.version),
            # Without it an image with vLLM calls a sync handler as a coroutine, and djl_python.huggingface refuses
            # to start on any other.
            ("option.rolling_batch", "disable"),
        ]
        if chosen.handler.entry_point == djl_huggingface.MODULE and chosen.task:
            own.append(("option.task", djl_huggingface.TASKS.get(chosen.task, chosen.task)))
        if chosen.tensor_parallel_degree > 1:
            own.append(("option.tensor_parallel_degree", str(chosen.tensor_parallel_degree)))
            own.append(("option.device_map", "auto"))
        return with_options(own, chosen.options)

    def probe(self, handler: HandlerSpec, task: Task | None) -> InferenceRequest | None:
        match task:
            case "text-generation" if handler.template == IMAGE_TEMPLATE:
                return ours.image_probe()
            case "text-generation":
                return InferenceRequest(prompt="Say OK", parameters={"max_tokens": 8, "temperature": 0})
            case "text2text-generation":
                return InferenceRequest(prompt="translate English to German: OK", chat=False)
            case "text-embedding" | "text-classification":
                return InferenceRequest(prompt="OK", chat=False)
            case "question-answering" if handler.template:
                return ours.question_probe()
            case _:
                return None

    def encode(self, request: InferenceRequest, handler: HandlerSpec, task: Task | None) -> HttpRequest:
        if request.adapter and (handler.template or handler.entry_point == djl_huggingface.MODULE):
            # djl_python.huggingface without rolling batch ignores the name: the model itself would answer.
            raise UsageRefused(
                f"this deployment has no adapters: its handler is {handler.template or djl_huggingface.MODULE}",
                hint="omit --adapter, or deploy with engine: vllm and options: {enable_lora: true}",
            )
        return super().encode(request, handler, task)

    def body(self, request: InferenceRequest, handler: HandlerSpec, task: Task | None) -> dict[str, Any]:
        if handler.entry_point == djl_huggingface.MODULE:
            return djl_huggingface.body(request, task)
        return ours.body(request, handler.template)

    def decoder(self, head: ResponseHead, request: InferenceRequest, handler: HandlerSpec) -> Decoder:
        if handler.entry_point == djl_huggingface.MODULE:
            return djl_huggingface.decoder(head, request)
        return ours.decoder(head, request, handler.template)


ENGINE: Final = Accelerate()
