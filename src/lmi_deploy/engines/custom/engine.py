"""The user's own code: a model.py in an LMI image, or a whole server in an image of the user's. lmi does not know its
requests.
"""

from __future__ import annotations

from typing import Final

from lmi_deploy.catalog.instances import Kind
from lmi_deploy.domain.deployment_artifact import SLOT, ArtifactFile
from lmi_deploy.domain.deployment_spec import EngineSpec, HandlerSpec, Spec
from lmi_deploy.domain.djl_serving import IMAGE_FAMILY, MODEL_PY
from lmi_deploy.domain.environment_setup import LocalSetup
from lmi_deploy.domain.gathered_facts import Machine
from lmi_deploy.domain.inference_http import HttpRequest, InferenceRequest, ResponseHead
from lmi_deploy.domain.recipe_endpoint_keys import RuntimeName
from lmi_deploy.domain.recipe_keys import Engine, Handler, Pairs, Recipe, Task
from lmi_deploy.domain.sagemaker.resource_settings import Delivery
from lmi_deploy.engines import image_server
from lmi_deploy.engines.djl_artifact import DELIVERIES, ENVIRONMENT, djl_artifact
from lmi_deploy.engines.djl_text import model_line
from lmi_deploy.engines.engine import Decoder
from lmi_deploy.engines.property_merge import with_options
from lmi_deploy.engines.response_stream_decoder import ErrorDecoder, TextDecoder
from lmi_deploy.errors import UsageRefused

name: Final[Engine] = "custom"
family: Final = IMAGE_FAMILY
devices: Final[tuple[Kind, ...]] = ("gpu", "cpu", "neuron", "gaudi")
local_runtimes: Final[tuple[RuntimeName, ...]] = ("embedded", "djl-serving")
deliveries: Final[tuple[Delivery, ...]] = DELIVERIES
templates: Final[tuple[str, ...]] = ()

WEIGHTS_VARIABLE: Final = ("LMI_MODEL_PATH", SLOT)
"""The folder of the weights, for a server in the user's own image."""


def handler(engine: Handler, task: Task | None, *, version: str = "") -> HandlerSpec:
    """Without a model.py the image contains the server: the recipe's checks require `container.image` then."""
    if not engine.file:
        return image_server.image_handler(name, engine)
    return HandlerSpec(entry_point=MODEL_PY, template=None)


def packages(handler: HandlerSpec) -> tuple[str, ...]:
    """What DJL's engine imports; the packages of the code are in the recipe's requirements."""
    if handler.entry_point == image_server.ENTRY_POINT:
        return ()
    return ("numpy==2.4.6",)


def properties(
    handler: HandlerSpec,
    options: Pairs,
    *,
    task: Task | None,
    tensor_parallel_degree: int,
    version: str = "",
) -> Pairs:
    if handler.entry_point == image_server.ENTRY_POINT:
        return (WEIGHTS_VARIABLE,)
    own = [("engine", "Python"), ("option.entryPoint", handler.entry_point), model_line(version)]
    if dict(options).get("async_mode", "").lower() != "true":
        # On an image with vLLM the server would give a text generation model to vLLM, and call the handler as a
        # coroutine, which stops the start-up.
        own.append(("option.rolling_batch", "disable"))
    if tensor_parallel_degree > 1:
        own.append(("option.tensor_parallel_degree", str(tensor_parallel_degree)))
    return with_options(own, options)


def artifact(spec: Spec) -> tuple[ArtifactFile, ...]:
    is_image = spec.engine.handler.entry_point == image_server.ENTRY_POINT
    return image_server.marker_artifact(spec) if is_image else djl_artifact(spec)


def environment(spec: EngineSpec) -> Pairs:
    return spec.properties if spec.handler.entry_point == image_server.ENTRY_POINT else ENVIRONMENT


def local_setup(spec: EngineSpec, recipe: Recipe, machine: Machine) -> LocalSetup:
    return LocalSetup(packages=spec.packages)


def probe(handler: HandlerSpec, task: Task | None) -> InferenceRequest | None:
    return None


def encode(request: InferenceRequest, handler: HandlerSpec, task: Task | None) -> HttpRequest:
    if request.body is None:
        raise UsageRefused(
            "engine custom: lmi does not know the format of your requests",
            hint="send a whole body: lmi invoke NAME --body @FILE, or probe.body in the recipe",
        )
    return HttpRequest(body=request.body, headers=(("Content-Type", request.content_type),))


def decoder(head: ResponseHead, prompt: InferenceRequest, handler: HandlerSpec) -> Decoder:
    return ErrorDecoder(head) if head.status >= 400 else TextDecoder()
