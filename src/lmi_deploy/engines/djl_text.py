"""What the built-in handlers of DJLServing's other engines share: they take LMI's form of a request, a text in
`inputs` and its `parameters`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from lmi_deploy.catalog.server_version import MODEL_ID_SINCE, order, require_engine
from lmi_deploy.domain.deployment_artifact import SLOT
from lmi_deploy.domain.deployment_spec import HandlerSpec
from lmi_deploy.domain.djl_serving import MODEL_PY
from lmi_deploy.domain.inference_http import InferenceRequest
from lmi_deploy.domain.recipe_keys import Handler, Task
from lmi_deploy.engines import template_handlers as ours
from lmi_deploy.engines.djl_engine import DjlEngine
from lmi_deploy.errors import Unresolvable


class DjlTextEngine(DjlEngine):
    tasks: ClassVar[tuple[Task, ...]]
    """Those of the built-in handler."""
    takes_chat: ClassVar[bool]
    """Whether the built-in handler knows OpenAI's chat."""

    @abstractmethod
    def builtin(self, version: str) -> str:
        """The module of the built-in handler of the server `version`."""

    def handler(self, engine: Handler, task: Task | None, *, version: str = "") -> HandlerSpec:
        """The user's model.py, or a built-in module.

        Raises Unresolvable for a server version without the engine, for a template, and for another task.
        """
        require_engine(self.name, version)
        if engine.template:
            raise Unresolvable(
                f"handler.template: engine {self.name} has no template {engine.template}",
                hint="omit it, or use engine: accelerate",
            )
        if engine.file:
            return HandlerSpec(entry_point=MODEL_PY, template=None)
        if task is not None and task not in self.tasks:
            raise Unresolvable(
                f"engine {self.name} does not serve task {task}",
                hint=f"it serves {', '.join(self.tasks)}; use engine: accelerate, or your own code in handler.file",
            )
        return HandlerSpec(entry_point=engine.builtin or self.builtin(version), template=None)

    def probe(self, handler: HandlerSpec, task: Task | None) -> InferenceRequest | None:
        match task:
            case "text-generation":
                return InferenceRequest(prompt="Say OK", chat=False, parameters={"max_new_tokens": 8})
            case "text2text-generation":
                return InferenceRequest(prompt="translate English to German: OK", chat=False)
            case "text-classification":
                return InferenceRequest(prompt="OK", chat=False)
            case _:
                return None

    def body(self, request: InferenceRequest, handler: HandlerSpec, task: Task | None) -> dict[str, Any]:
        as_chat = self.takes_chat and (request.chat or bool(request.system))
        return ours.body(request, None if as_chat else "text2text-generation")


def model_line(version: str) -> tuple[str, str]:
    """The key of the weights in the spelling of the server `version`, and the slot."""
    return ("option.model_id" if order(version) >= MODEL_ID_SINCE else "option.s3url", SLOT)
