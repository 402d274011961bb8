"""vLLM's own OpenAI server: `vllm serve` in AWS's plain vLLM images, without DJLServing.

The image's entry point makes an argument of each variable SM_VLLM_*: SM_VLLM_MAX_MODEL_LEN=4096 is
`--max-model-len 4096`, and a variable without a value is a flag (aws/deep-learning-containers,
vllm/build_artifacts/sagemaker_entrypoint.sh, 2026-11-23). /invocations takes each of vLLM's requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from lmi_deploy.domain.deployment_artifact import SLOT
from lmi_deploy.domain.deployment_spec import EngineSpec, HandlerSpec
from lmi_deploy.domain.inference_http import InferenceRequest
from lmi_deploy.domain.recipe_keys import Engine, Handler, Pairs, Task
from lmi_deploy.engines import image_server
from lmi_deploy.engines.engine import EngineInputs
from lmi_deploy.engines.image_server import ImageServer
from lmi_deploy.errors import Unresolvable, UsageRefused

_PREFIX: Final = "SM_VLLM_"
_NOT_SERVED: Final[tuple[Task, ...]] = ("text2text-generation", "question-answering")


class VllmServer(ImageServer):
    name: ClassVar[Engine] = "vllm-server"
    family: ClassVar[str] = "vllm"

    def handler(self, engine: Handler, task: Task | None, *, version: str = "") -> HandlerSpec:
        if task in _NOT_SERVED:
            raise Unresolvable(
                f"task {task}: vLLM's server has no request for it", hint="use engine: accelerate, which has"
            )
        return image_server.image_handler(self.name, engine)

    def properties(self, chosen: EngineInputs) -> Pairs:
        own = (("model", SLOT), ("tensor_parallel_size", str(chosen.tensor_parallel_degree)))
        return image_server.merged(own, chosen.options)

    def environment(self, spec: EngineSpec) -> Pairs:
        return image_server.prefixed(_PREFIX, tuple(_flags(spec.properties)))

    def probe(self, handler: HandlerSpec, task: Task | None) -> InferenceRequest | None:
        if task in ("text-embedding", "text-classification"):
            return InferenceRequest(prompt="OK", chat=False)
        return InferenceRequest(prompt="Say OK", parameters={"max_tokens": 8, "temperature": 0})

    def body(self, request: InferenceRequest, handler: HandlerSpec, task: Task | None) -> dict[str, Any]:
        if task not in ("text-embedding", "text-classification"):
            return super().body(request, handler, task)
        if request.system or request.history or request.images or request.stream:
            raise UsageRefused(
                f"this deployment has task {task}, which takes a single text",
                hint='send a single text: lmi invoke NAME "your text"',
            )
        return {"input": request.prompt, **request.parameters}


def _flags(settings: Pairs) -> Iterator[tuple[str, str]]:
    """vLLM's switches have no value: `--enforce-eager`, and `--no-enforce-eager` for false."""
    for key, value in settings:
        if value.lower() in ("true", "false"):
            yield key if value.lower() == "true" else f"no_{key}", ""
        else:
            yield key, value


ENGINE: Final = VllmServer()
