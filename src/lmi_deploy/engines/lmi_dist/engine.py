"""lmi-dist, AWS's own rolling batch around vLLM's kernels: in the djl-deepspeed images from DJLServing 0.23 and in
djl-lmi to 0.32; tensor parallel on GPUs, under MPI. A server of 0.33 runs vLLM instead.
"""

from __future__ import annotations

from typing import ClassVar, Final

from lmi_deploy.domain.deployment_artifact import SLOT
from lmi_deploy.domain.recipe_keys import Engine, Pairs, Task
from lmi_deploy.engines import djl_huggingface
from lmi_deploy.engines.djl_text import DjlTextEngine
from lmi_deploy.engines.engine import EngineInputs
from lmi_deploy.engines.serving_properties import with_options


class LmiDist(DjlTextEngine):
    name: ClassVar[Engine] = "lmi-dist"
    family: ClassVar[str] = "djl-lmi"
    tasks: ClassVar[tuple[Task, ...]] = ("text-generation", "text2text-generation")
    takes_chat: ClassVar[bool] = True

    def builtin(self, version: str) -> str:
        return djl_huggingface.MODULE

    def properties(self, chosen: EngineInputs) -> Pairs:
        own = [
            ("engine", "MPI"),
            ("option.entryPoint", chosen.handler.entry_point),
            ("option.model_id", SLOT),
            ("option.rolling_batch", "lmi-dist"),
            ("option.tensor_parallel_degree", str(chosen.tensor_parallel_degree)),
        ]
        return with_options(own, chosen.options)


ENGINE: Final = LmiDist()
