"""DeepSpeed in the djl-deepspeed images (DJLServing 0.19 to 0.27): tensor parallel on GPUs, kernels of its own for GPT
models.

The handler answers `[{"generated_text": text}]`; with text-generation the text begins with the prompt (0.24).
"""

from __future__ import annotations

from typing import ClassVar, Final

from lmi_deploy.catalog.server_version import order
from lmi_deploy.domain.deployment_spec import HandlerSpec
from lmi_deploy.domain.inference_http import InferenceRequest, ResponseHead
from lmi_deploy.domain.recipe_keys import Engine, Pairs, Task
from lmi_deploy.engines import djl_huggingface
from lmi_deploy.engines.djl_text import DjlTextEngine, model_line
from lmi_deploy.engines.engine import Decoder, EngineInputs
from lmi_deploy.engines.serving_properties import with_options

MODULE: Final = "djl_python.deepspeed"
_ROLLING_SINCE: Final = (0, 25)
"""Servers from here on may choose a rolling batch themselves, which changes the form of the response."""


class DeepSpeed(DjlTextEngine):
    name: ClassVar[Engine] = "deepspeed"
    family: ClassVar[str] = "djl-deepspeed"
    tasks: ClassVar[tuple[Task, ...]] = (
        "text-generation",
        "text2text-generation",
        "text-classification",
        "question-answering",
    )
    takes_chat: ClassVar[bool] = False

    def builtin(self, version: str) -> str:
        return MODULE

    def properties(self, chosen: EngineInputs) -> Pairs:
        own = [
            ("engine", "DeepSpeed"),
            ("option.entryPoint", chosen.handler.entry_point),
            model_line(chosen.version),
            ("option.tensor_parallel_degree", str(chosen.tensor_parallel_degree)),
        ]
        if order(chosen.version) >= _ROLLING_SINCE:
            own.append(("option.rolling_batch", "disable"))
        if chosen.task and chosen.handler.entry_point == MODULE:
            own.append(("option.task", chosen.task))
        return with_options(own, chosen.options)

    def decoder(self, head: ResponseHead, request: InferenceRequest, handler: HandlerSpec) -> Decoder:
        return djl_huggingface.decoder(head, request)


ENGINE: Final = DeepSpeed()
