"""FasterTransformer in the djl-fastertransformer images (DJLServing 0.21 to 0.24): T5 and GPT models, tensor and
pipeline parallel on GPUs.

The handler answers `[{"generated_text": text}]`. It knows `max_new_tokens`, `num_beams` and `length_penalty`, and
passes every other parameter to `pipeline_generate`: beam_width 1, max_seq_len 200, top_k 1, top_p 0.0, temperature
1.0, len_penalty 0.0, repetition_penalty 1.0 ... by default.
"""

from __future__ import annotations

from typing import ClassVar, Final

from lmi_deploy.domain.recipe_keys import Engine, Pairs, Task
from lmi_deploy.engines.djl_text import DjlTextEngine, model_line
from lmi_deploy.engines.engine import EngineInputs
from lmi_deploy.engines.serving_properties import with_options

MODULE: Final = "djl_python.fastertransformer"


class FasterTransformer(DjlTextEngine):
    name: ClassVar[Engine] = "fastertransformer"
    family: ClassVar[str] = "djl-fastertransformer"
    tasks: ClassVar[tuple[Task, ...]] = ("text2text-generation", "text-generation")
    takes_chat: ClassVar[bool] = False

    def builtin(self, version: str) -> str:
        return MODULE

    def properties(self, chosen: EngineInputs) -> Pairs:
        own = [
            ("engine", "FasterTransformer"),
            ("option.entryPoint", chosen.handler.entry_point),
            model_line(chosen.version),
            ("option.tensor_parallel_degree", str(chosen.tensor_parallel_degree)),
        ]
        return with_options(own, chosen.options)


ENGINE: Final = FasterTransformer()
