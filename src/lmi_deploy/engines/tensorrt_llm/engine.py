"""TensorRT-LLM in the djl-tensorrtllm images (DJLServing 0.25 to 0.33): tensor and pipeline parallel on GPUs.

The engine is compiled at the start, for the very GPU that it runs on, unless the model folder holds a compiled one.
Since 0.33 DJLServing runs it by an asynchronous service, before by a rolling batch under MPI.
"""

from __future__ import annotations

from typing import ClassVar, Final

from lmi_deploy.catalog.server_version import order
from lmi_deploy.domain.deployment_artifact import SLOT
from lmi_deploy.domain.recipe_keys import Engine, Pairs, Task
from lmi_deploy.engines.djl_text import DjlTextEngine
from lmi_deploy.engines.engine import EngineInputs
from lmi_deploy.engines.serving_properties import with_options

SERVICE: Final = "djl_python.lmi_trtllm.trtllm_async_service"
ROLLING: Final = "djl_python.tensorrt_llm"
_ASYNC_SINCE: Final = (0, 33)


class TensorRtLlm(DjlTextEngine):
    name: ClassVar[Engine] = "tensorrt-llm"
    family: ClassVar[str] = "djl-tensorrtllm"
    tasks: ClassVar[tuple[Task, ...]] = ("text-generation", "text2text-generation")
    takes_chat: ClassVar[bool] = True

    def builtin(self, version: str) -> str:
        return SERVICE if order(version) >= _ASYNC_SINCE else ROLLING

    def properties(self, chosen: EngineInputs) -> Pairs:
        is_rolling = order(chosen.version) < _ASYNC_SINCE
        own = [
            ("engine", "MPI" if is_rolling else "Python"),
            ("option.entryPoint", chosen.handler.entry_point),
            ("option.model_id", SLOT),
            *([] if is_rolling else [("option.async_mode", "true")]),
            ("option.rolling_batch", "trtllm" if is_rolling else "disable"),
            ("option.tensor_parallel_degree", str(chosen.tensor_parallel_degree)),
        ]
        return with_options(own, chosen.options)


ENGINE: Final = TensorRtLlm()
