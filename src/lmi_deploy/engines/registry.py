"""The engines that are built, by the name a recipe gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lmi_deploy.domain.recipe_keys import Engine
from lmi_deploy.engines.accelerate import engine as accelerate
from lmi_deploy.engines.custom import engine as custom
from lmi_deploy.engines.deepspeed import engine as deepspeed
from lmi_deploy.engines.engine import EngineModule
from lmi_deploy.engines.fastertransformer import engine as fastertransformer
from lmi_deploy.engines.lmi_dist import engine as lmi_dist
from lmi_deploy.engines.neuron import engine as neuron
from lmi_deploy.engines.neuronx import engine as neuronx
from lmi_deploy.engines.sglang import engine as sglang
from lmi_deploy.engines.tei import engine as tei
from lmi_deploy.engines.tensorrt_llm import engine as tensorrt_llm
from lmi_deploy.engines.triton import engine as triton
from lmi_deploy.engines.vllm import engine as vllm
from lmi_deploy.engines.vllm_server import engine as vllm_server

ENGINES: Final[Mapping[Engine, EngineModule]] = {
    "accelerate": accelerate,
    "custom": custom,
    "deepspeed": deepspeed,
    "fastertransformer": fastertransformer,
    "lmi-dist": lmi_dist,
    "neuron": neuron,
    "neuronx": neuronx,
    "tensorrt-llm": tensorrt_llm,
    "sglang": sglang,
    "tei": tei,
    "triton": triton,
    "vllm": vllm,
    "vllm-server": vllm_server,
}


def engine(name: Engine) -> EngineModule:
    return ENGINES[name]
