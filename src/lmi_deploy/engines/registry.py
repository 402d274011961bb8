"""The engines that are built, by the name a recipe gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lmi_deploy.domain.recipe_keys import Engine
from lmi_deploy.engines.accelerate import engine as accelerate
from lmi_deploy.engines.custom import engine as custom
from lmi_deploy.engines.deepspeed import engine as deepspeed
from lmi_deploy.engines.engine import InferenceEngine
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

ENGINES: Final[Mapping[Engine, InferenceEngine]] = {
    module.ENGINE.name: module.ENGINE
    for module in (
        *(accelerate, custom, deepspeed, fastertransformer, lmi_dist, neuron, neuronx),
        *(sglang, tei, tensorrt_llm, triton, vllm, vllm_server),
    )
}
