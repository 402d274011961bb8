"""Transformers NeuronX in the djl-neuronx images (DJLServing 0.22 to 0.29): tensor parallel over the NeuronCores of
Inferentia2 and Trainium. The model is compiled at the start, for one batch, length and degree, unless
`compiled_graph_path` names the result of an earlier compilation.
"""

from __future__ import annotations

from typing import ClassVar, Final

from lmi_deploy.catalog.instances import Kind
from lmi_deploy.catalog.server_version import order
from lmi_deploy.domain.deployment_artifact import SLOT
from lmi_deploy.domain.recipe_keys import Engine, Pairs, Task
from lmi_deploy.engines.djl_text import DjlTextEngine
from lmi_deploy.engines.engine import EngineInputs
from lmi_deploy.engines.serving_properties import with_options

MODULE: Final = "djl_python.transformers_neuronx"
_ROLLING_SINCE: Final = (0, 25)


class NeuronX(DjlTextEngine):
    name: ClassVar[Engine] = "neuronx"
    family: ClassVar[str] = "djl-neuronx"
    tasks: ClassVar[tuple[Task, ...]] = ("text-generation",)
    takes_chat: ClassVar[bool] = True
    devices: ClassVar[tuple[Kind, ...]] = ("neuron",)

    def builtin(self, version: str) -> str:
        return MODULE

    def properties(self, chosen: EngineInputs) -> Pairs:
        own = [
            ("engine", "Python"),
            ("option.entryPoint", chosen.handler.entry_point),
            ("option.model_id", SLOT),
            ("option.tensor_parallel_degree", str(chosen.tensor_parallel_degree)),
        ]
        if order(chosen.version) >= _ROLLING_SINCE:
            own.append(("option.rolling_batch", "auto"))
        return with_options(own, chosen.options)


ENGINE: Final = NeuronX()
