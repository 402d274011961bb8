"""SGLang's own server in AWS's images, without DJLServing.

The image's entry point makes an argument of each variable SM_SGLANG_*: SM_SGLANG_CONTEXT_LENGTH=4096 is
`--context-length 4096`; `true` is a flag, `false` is left out (aws/deep-learning-containers, SGLang's
sagemaker_entrypoint.sh, 2026-11-23). /invocations takes OpenAI's chat requests only (SGLang's http_server.py).
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from lmi_deploy.domain.deployment_artifact import SLOT
from lmi_deploy.domain.deployment_spec import EngineSpec, HandlerSpec
from lmi_deploy.domain.inference_http import InferenceRequest
from lmi_deploy.domain.recipe_keys import Engine, Handler, Pairs, Task
from lmi_deploy.engines import image_server
from lmi_deploy.engines.engine import EngineInputs
from lmi_deploy.engines.image_server import ImageServer
from lmi_deploy.errors import Unresolvable, UsageRefused

_PREFIX: Final = "SM_SGLANG_"


class SGLang(ImageServer):
    name: ClassVar[Engine] = "sglang"
    family: ClassVar[str] = "sglang"

    def handler(self, engine: Handler, task: Task | None, *, version: str = "") -> HandlerSpec:
        if task not in (None, "text-generation"):
            raise Unresolvable(
                f"task {task}: SGLang's /invocations takes chat requests only",
                hint="use engine: vllm-server, tei or accelerate",
            )
        return image_server.image_handler(self.name, engine)

    def properties(self, chosen: EngineInputs) -> Pairs:
        own = (("model_path", SLOT), ("tp_size", str(chosen.tensor_parallel_degree)))
        return image_server.merged(own, chosen.options)

    def environment(self, spec: EngineSpec) -> Pairs:
        return image_server.prefixed(_PREFIX, spec.properties)

    def probe(self, handler: HandlerSpec, task: Task | None) -> InferenceRequest | None:
        return InferenceRequest(prompt="Say OK", parameters={"max_tokens": 8, "temperature": 0})

    def body(self, request: InferenceRequest, handler: HandlerSpec, task: Task | None) -> dict[str, Any]:
        if not request.chat and not request.system:
            raise UsageRefused(
                "SGLang's /invocations takes chat requests only, no completions",
                hint="send the text as a chat, without --no-chat",
            )
        return super().body(request, handler, task)


ENGINE: Final = SGLang()
