"""The user's own code: a model.py in an LMI image, or a whole server in an image of the user's. lmi does not know its
requests.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from lmi_deploy.catalog.instances import Kind
from lmi_deploy.domain.deployment_artifact import SLOT, ArtifactFile
from lmi_deploy.domain.deployment_spec import EngineSpec, HandlerSpec, Spec
from lmi_deploy.domain.djl_serving import IMAGE_FAMILY, MODEL_PY
from lmi_deploy.domain.inference_http import InferenceRequest, ResponseHead
from lmi_deploy.domain.recipe_endpoint_keys import RuntimeName
from lmi_deploy.domain.recipe_keys import Engine, Handler, Pairs, Task
from lmi_deploy.engines import image_server
from lmi_deploy.engines.djl_engine import DjlEngine
from lmi_deploy.engines.djl_text import model_line
from lmi_deploy.engines.engine import Decoder, EngineInputs
from lmi_deploy.engines.response_stream_decoder import ErrorDecoder, TextDecoder
from lmi_deploy.engines.serving_properties import with_options
from lmi_deploy.errors import UsageRefused

WEIGHTS_VARIABLE: Final = ("LMI_MODEL_PATH", SLOT)
"""The folder of the weights, for a server in the user's own image."""


class Custom(DjlEngine):
    name: ClassVar[Engine] = "custom"
    family: ClassVar[str] = IMAGE_FAMILY
    devices: ClassVar[tuple[Kind, ...]] = ("gpu", "cpu", "neuron", "gaudi")
    local_runtimes: ClassVar[tuple[RuntimeName, ...]] = ("embedded", "djl-serving")

    def handler(self, engine: Handler, task: Task | None, *, version: str = "") -> HandlerSpec:
        """Without a model.py the image contains the server: the recipe's checks require `container.image` then."""
        if not engine.file:
            return image_server.image_handler(self.name, engine)
        return HandlerSpec(entry_point=MODEL_PY, template=None)

    def packages(self, handler: HandlerSpec) -> tuple[str, ...]:
        """What DJL's engine imports; the packages of the code are in the recipe's requirements."""
        if handler.entry_point == image_server.ENTRY_POINT:
            return ()
        return ("numpy==2.4.6",)

    def properties(self, chosen: EngineInputs) -> Pairs:
        if chosen.handler.entry_point == image_server.ENTRY_POINT:
            return (WEIGHTS_VARIABLE,)
        own = [
            ("engine", "Python"),
            ("option.entryPoint", chosen.handler.entry_point),
            model_line(chosen.version),
        ]
        if dict(chosen.options).get("async_mode", "").lower() != "true":
            # On an image with vLLM the server would give a text generation model to vLLM, and call the handler as a
            # coroutine, which stops the start-up.
            own.append(("option.rolling_batch", "disable"))
        if chosen.tensor_parallel_degree > 1:
            own.append(("option.tensor_parallel_degree", str(chosen.tensor_parallel_degree)))
        return with_options(own, chosen.options)

    def artifact(self, spec: Spec) -> tuple[ArtifactFile, ...]:
        is_image = spec.engine.handler.entry_point == image_server.ENTRY_POINT
        return image_server.marker_artifact(spec) if is_image else super().artifact(spec)

    def environment(self, spec: EngineSpec) -> Pairs:
        is_image = spec.handler.entry_point == image_server.ENTRY_POINT
        return spec.properties if is_image else super().environment(spec)

    def probe(self, handler: HandlerSpec, task: Task | None) -> InferenceRequest | None:
        return None

    def body(self, request: InferenceRequest, handler: HandlerSpec, task: Task | None) -> dict[str, Any]:
        raise UsageRefused(
            "engine custom: lmi does not know the format of your requests",
            hint="send a whole body: lmi invoke NAME --body @FILE, or probe.body in the recipe",
        )

    def decoder(self, head: ResponseHead, request: InferenceRequest, handler: HandlerSpec) -> Decoder:
        return ErrorDecoder(head) if head.status >= 400 else TextDecoder()


ENGINE: Final = Custom()
