"""vLLM in an LMI image: its asynchronous service, or, on servers before 0.35, DJL's rolling batch around it."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from lmi_deploy.catalog.server_version import order
from lmi_deploy.domain.deployment_artifact import SLOT
from lmi_deploy.domain.deployment_spec import EngineSpec, HandlerSpec
from lmi_deploy.domain.djl_serving import IMAGE_FAMILY, MODEL_PY, SERVER_VERSION
from lmi_deploy.domain.environment_setup import LocalSetup
from lmi_deploy.domain.gathered_facts import Machine
from lmi_deploy.domain.inference_http import InferenceRequest
from lmi_deploy.domain.recipe_endpoint_keys import RuntimeName
from lmi_deploy.domain.recipe_keys import Engine, Handler, Pairs, Recipe, Task
from lmi_deploy.engines import djl_huggingface
from lmi_deploy.engines import template_handlers as ours
from lmi_deploy.engines.djl_engine import DjlEngine
from lmi_deploy.engines.engine import EngineInputs
from lmi_deploy.engines.serving_properties import with_options
from lmi_deploy.engines.vllm import local
from lmi_deploy.errors import Unresolvable

SERVICE: Final = "djl_python.lmi_vllm.vllm_async_service"
ROLLING: Final = djl_huggingface.MODULE
"""The handler that hands its requests to vLLM's rolling batch."""
_ASYNC_SINCE: Final = (0, 35)
"""Whether the server itself selects the asynchronous service for a text generation model."""
ADAPTERS_BY_REQUEST_SINCE: Final = (0, 36)
"""Before, DJL's asynchronous service sets the LoRA adapter of a request for the whole engine while it waits for the
answer: a stream is answered by the model itself, and requests at the same time get the adapter of the other one. Seen
with 0.34.0 and vLLM 0.10.2 on 2026-11-23; the later source names the adapter in the request.
"""
_EMBEDS_SINCE: Final = (0, 36)
"""From LMI 26 on: before, the service reads every `inputs` as a text to go on with."""
_NOT_SERVED: Final[tuple[Task, ...]] = ("text-classification", "question-answering")
_CHOSEN: Final = ("async_mode", "rolling_batch")


class Vllm(DjlEngine):
    name: ClassVar[Engine] = "vllm"
    family: ClassVar[str] = IMAGE_FAMILY
    local_runtimes: ClassVar[tuple[RuntimeName, ...]] = ("embedded", "djl-serving")

    def handler(self, engine: Handler, task: Task | None, *, version: str = "") -> HandlerSpec:
        if engine.template:
            raise Unresolvable(
                f"handler.template: engine vllm has no template {engine.template}",
                hint="omit it, or use engine: accelerate",
            )
        if task in _NOT_SERVED:
            raise Unresolvable(
                f"lmi has no request for task {task} with engine vllm", hint="use engine: accelerate"
            )
        if task == "text-embedding" and order(version) < _EMBEDS_SINCE:
            raise Unresolvable(
                f"engine vllm on server {version} cannot embed",
                hint=f"container: {{version: {SERVER_VERSION}}} or newer can, and so can engine: accelerate",
            )
        if engine.file:
            return HandlerSpec(entry_point=MODEL_PY, template=None)
        default = SERVICE if order(version) >= _ASYNC_SINCE else ROLLING
        return HandlerSpec(entry_point=engine.builtin or default, template=None)

    def properties(self, chosen: EngineInputs) -> Pairs:
        _require_agreement(chosen.handler, chosen.options)
        rolling = chosen.handler.entry_point == ROLLING
        own = [
            ("engine", "Python"),
            ("option.entryPoint", chosen.handler.entry_point),
            ("option.model_id", SLOT),
            # Set explicitly: the server would guess both from the name of the architecture, and knows few of them.
            *([] if rolling else [("option.async_mode", "true")]),
            ("option.rolling_batch", "vllm" if rolling else "disable"),
            ("option.tensor_parallel_degree", str(chosen.tensor_parallel_degree)),
        ]
        if chosen.task == "text-embedding":
            own.append(("option.task", chosen.task))
        return with_options(own, chosen.options)

    def local_setup(self, spec: EngineSpec, recipe: Recipe, machine: Machine) -> LocalSetup:
        return local.local_setup(spec, recipe, machine, service=SERVICE)

    def probe(self, handler: HandlerSpec, task: Task | None) -> InferenceRequest | None:
        if task == "text-embedding":
            return InferenceRequest(prompt="OK", chat=False)
        return InferenceRequest(prompt="Say OK", parameters={"max_tokens": 8, "temperature": 0})

    def body(self, request: InferenceRequest, handler: HandlerSpec, task: Task | None) -> dict[str, Any]:
        if task == "text-embedding":
            return ours.body(request, task)
        chat = request.chat or bool(request.system)
        if handler.entry_point == ROLLING and not chat:
            # The rolling batch knows OpenAI's chat, but not its completions.
            return ours.body(request, "text2text-generation")
        return ours.body(request, None)


def _require_agreement(handler: HandlerSpec, options: Pairs) -> None:
    """The handler and two options must agree; otherwise the server starts in one mode and serves in another."""
    given = dict(options)
    response = {"async_mode": "true", "rolling_batch": "disable"}
    if handler.entry_point != SERVICE:
        return
    for key in _CHOSEN:
        if given.get(key, response[key]).lower() not in (response[key], "auto"):
            raise Unresolvable(
                f"options.{key}: {given[key]} cannot be combined with the handler {SERVICE}",
                hint=f"omit it, or add handler: {{builtin: {ROLLING}}}, which runs vLLM's rolling batch",
            )


ENGINE: Final = Vllm()
