"""How requests to a deployment are encoded, from the fields in its record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import get_args

from lmi_deploy.catalog.server_version import order, server_version
from lmi_deploy.domain.deployment_spec import HandlerSpec
from lmi_deploy.domain.djl_serving import ENGINE_VERSION
from lmi_deploy.domain.inference_http import (
    ADAPTER_HEADER,
    VARIANT_HEADER,
    HttpRequest,
    InferenceRequest,
    ResponseHead,
)
from lmi_deploy.domain.recipe_keys import Engine, Task
from lmi_deploy.domain.sagemaker.component_settings import COMPONENT_HEADER
from lmi_deploy.domain.sagemaker.resource_names import adapter_component_name
from lmi_deploy.domain.serving_record import ServingRecord
from lmi_deploy.engines.engine import Decoder, InferenceEngine
from lmi_deploy.engines.registry import ENGINES
from lmi_deploy.engines.vllm.engine import ADAPTERS_BY_REQUEST_SINCE
from lmi_deploy.engines.vllm.engine import SERVICE as VLLM_SERVICE
from lmi_deploy.errors import Unresolvable


@dataclass(frozen=True, slots=True)
class Codec:
    engine: InferenceEngine
    handler: HandlerSpec
    task: Task | None
    adapter_base: str = ""
    """The deployment, if each of its adapters is an inference component; empty: its server knows them by name."""

    def adapter_headers(self, adapter: str) -> tuple[tuple[str, str], ...]:
        """How a request selects a LoRA adapter; empty: the model itself."""
        if not adapter:
            return ()
        if self.adapter_base:
            return ((COMPONENT_HEADER, adapter_component_name(self.adapter_base, adapter)),)
        return ((ADAPTER_HEADER, adapter),)

    def encode(self, request: InferenceRequest) -> HttpRequest:
        """Raises UsageRefused for a request that the handler does not support."""
        encoded = self.engine.encode(request, self.handler, self.task)
        variant = ((VARIANT_HEADER, request.variant),) if request.variant else ()
        headers = (*encoded.headers, *self.adapter_headers(request.adapter), *variant)
        return replace(encoded, headers=headers, stream=request.stream)

    def decoder(self, head: ResponseHead, request: InferenceRequest) -> Decoder:
        return self.engine.decoder(head, request, self.handler)


def codec_of(serving: ServingRecord, deployment: str) -> Codec:
    """An engine that this lmi does not know is Unresolvable."""
    codec = named_codec(
        engine=serving.engine, handler=serving.handler, template=serving.template, task=serving.task
    )
    return replace(codec, adapter_base=deployment) if serving.has_adapter_components else codec


def named_codec(*, engine: str, handler: str, template: str, task: str) -> Codec:
    """By the fields of a record. An engine that this lmi does not know is Unresolvable."""
    known: dict[str, Engine] = {name: name for name in get_args(Engine)}
    tasks: dict[str, Task] = {name: name for name in get_args(Task)}
    name = known.get(engine)
    if name is None:
        raise Unresolvable(
            f"unknown engine in the record: {engine!r}",
            hint="use the newer lmi that wrote it",
        )
    code = HandlerSpec(entry_point=handler, template=template or None)
    return Codec(ENGINES[name], code, tasks.get(task))


def streams_adapters(serving: ServingRecord) -> bool:
    """Whether a streamed response comes from the LoRA adapter that its request names, not from the model itself."""
    if serving.engine != "vllm" or serving.handler != VLLM_SERVICE:
        return True
    image = serving.place.image
    version = server_version(None, image)[0] if image else ENGINE_VERSION
    return order(version) >= ADAPTERS_BY_REQUEST_SINCE
