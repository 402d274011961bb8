"""Servers that an image contains and that start from variables: no serving.properties, no code of lmi's.

SageMaker asks of such a server GET /ping and POST /invocations on port 8080, and that it starts with `serve`.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar, Final

from lmi_deploy.domain.deployment_artifact import MARKER, ArtifactFile
from lmi_deploy.domain.deployment_spec import HandlerSpec, Spec
from lmi_deploy.domain.inference_http import InferenceRequest
from lmi_deploy.domain.recipe_keys import Engine, Handler, Pairs, Task
from lmi_deploy.domain.sagemaker.resource_settings import Delivery
from lmi_deploy.engines import template_handlers
from lmi_deploy.engines.engine import InferenceEngine
from lmi_deploy.errors import Unresolvable

ENTRY_POINT: Final = "image"
"""The handler of a deployment whose image has a server of its own."""
_OF_DJL_SERVING: Final = ("predict_timeout", "model_loading_timeout", "trust_insecure_model_files")
"""Options that lmi derives from recipe keys for DJLServing; these servers have none of them."""


def image_handler(name: Engine, requested: Handler) -> HandlerSpec:
    """Raises Unresolvable for a recipe with a handler."""
    given = next((key for key in ("file", "template", "builtin") if getattr(requested, key)), "")
    if given:
        raise Unresolvable(
            f"handler.{given}: engine {name} is a server of its own, which runs no handler",
            hint="omit handler, or use engine: custom with handler.file",
        )
    return HandlerSpec(entry_point=ENTRY_POINT, template=None)


class ImageServer(InferenceEngine):
    deliveries: ClassVar[tuple[Delivery, ...]] = ("mount", "artifact")
    """SageMaker puts the files into the container before it starts."""

    def artifact(self, spec: Spec) -> tuple[ArtifactFile, ...]:
        return marker_artifact(spec)

    def body(self, request: InferenceRequest, handler: HandlerSpec, task: Task | None) -> dict[str, Any]:
        """OpenAI's chat or completion."""
        return template_handlers.body(request, None)


def marker_artifact(spec: Spec) -> tuple[ArtifactFile, ...]:
    """One file, which no server reads: SageMaker needs a folder for the model, and lmi one to find again."""
    content = {"engine": spec.engine.name, "model": spec.model.model_id, "commit": spec.model.commit}
    return (ArtifactFile(MARKER, json.dumps(content, indent=1).encode() + b"\n"),)


def server_options(options: Pairs) -> Pairs:
    """The options of the server itself."""
    return tuple((key, value) for key, value in options if key not in _OF_DJL_SERVING)


def merged(own: Pairs, options: Pairs) -> Pairs:
    """The settings of the server: each of `options` replaces ours of the same name, the others follow."""
    given = {key.replace("-", "_"): value for key, value in server_options(options)}
    kept = tuple((key, given.pop(key, value)) for key, value in own)
    return (*kept, *given.items())


def prefixed(prefix: str, settings: Pairs) -> Pairs:
    """Settings as variables: `max_model_len` becomes `<prefix>MAX_MODEL_LEN`."""
    return tuple((prefix + key.upper(), value) for key, value in settings)
