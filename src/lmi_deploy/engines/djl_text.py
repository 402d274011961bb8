"""What the built-in handlers of DJLServing's other engines share: they take LMI's form of a request, a text in
`inputs` and its `parameters`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from lmi_deploy.catalog.server_version import MODEL_ID_SINCE, order, require_engine
from lmi_deploy.domain.deployment_artifact import SLOT
from lmi_deploy.domain.deployment_spec import HandlerSpec
from lmi_deploy.domain.djl_serving import MODEL_PY
from lmi_deploy.domain.inference_http import HttpRequest, InferenceRequest
from lmi_deploy.domain.recipe_keys import Engine, Handler, Task
from lmi_deploy.engines import template_handlers as ours
from lmi_deploy.errors import Unresolvable


def choose_handler(
    engine: Handler, task: Task | None, *, name: Engine, default: str, tasks: Sequence[Task], version: str
) -> HandlerSpec:
    """The user's model.py, a built-in module, or `default`, which serves `tasks`.

    Raises Unresolvable for a server version without the engine, for a template, and for another task.
    """
    require_engine(name, version)
    if engine.template:
        raise Unresolvable(
            f"handler.template: engine {name} has no template {engine.template}",
            hint="omit it, or use engine: accelerate",
        )
    if engine.file:
        return HandlerSpec(entry_point=MODEL_PY, template=None)
    if task is not None and task not in tasks:
        raise Unresolvable(
            f"engine {name} does not serve task {task}",
            hint=f"it serves {', '.join(tasks)}; use engine: accelerate, or your own code in handler.file",
        )
    return HandlerSpec(entry_point=engine.builtin or default, template=None)


def model_line(version: str) -> tuple[str, str]:
    """The key of the weights in the spelling of the server `version`, and the slot."""
    return ("option.model_id" if order(version) >= MODEL_ID_SINCE else "option.s3url", SLOT)


def probe(task: Task | None) -> InferenceRequest | None:
    """A short text; None if the recipe must set one."""
    match task:
        case "text-generation":
            return InferenceRequest(prompt="Say OK", chat=False, parameters={"max_new_tokens": 8})
        case "text2text-generation":
            return InferenceRequest(prompt="translate English to German: OK", chat=False)
        case "text-classification":
            return InferenceRequest(prompt="OK", chat=False)
        case _:
            return None


def encode(request: InferenceRequest, *, chat: bool) -> HttpRequest:
    """`chat`: whether the handler knows OpenAI's chat. Raises UsageRefused for a request that it does not take."""
    if request.body is not None:
        return HttpRequest(body=request.body, headers=(("Content-Type", request.content_type),))
    as_chat = chat and (request.chat or bool(request.system))
    body = ours.body(request, None if as_chat else "text2text-generation")
    encoded = json.dumps(body, ensure_ascii=False).encode()
    return HttpRequest(body=encoded, headers=(("Content-Type", "application/json"),))
