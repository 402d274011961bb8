"""The interface of an inference engine: one folder each, whose `ENGINE` is in the registry."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Protocol

from lmi_deploy.catalog.instances import Kind
from lmi_deploy.domain.deployment_artifact import ArtifactFile
from lmi_deploy.domain.deployment_spec import EngineSpec, HandlerSpec, Spec
from lmi_deploy.domain.environment_setup import LocalSetup
from lmi_deploy.domain.gathered_facts import Machine
from lmi_deploy.domain.inference_http import Chunk, HttpRequest, InferenceRequest, ResponseHead
from lmi_deploy.domain.recipe_endpoint_keys import RuntimeName
from lmi_deploy.domain.recipe_keys import Engine, Handler, Pairs, Recipe, Task
from lmi_deploy.domain.sagemaker.resource_settings import Delivery
from lmi_deploy.engines.response_stream_decoder import read_json, read_line, response_decoder


class Decoder(Protocol):
    """Decodes the bytes of one response, however they were split, into pieces."""

    def feed(self, data: bytes) -> list[Chunk]:
        """The chunks that can be decoded after `data`."""

    def close(self) -> list[Chunk]:
        """The chunks that are known only at the end of the response."""


@dataclass(frozen=True, slots=True)
class EngineInputs:
    """What the settings of a server depend on."""

    handler: HandlerSpec
    options: Pairs
    """The recipe's, without `option.`."""
    _: KW_ONLY
    task: Task | None
    tensor_parallel_degree: int
    version: str = ""
    """The server's, empty the newest."""


class InferenceEngine(ABC):
    """Pure. The `handler` argument is the recipe's request, the result is the choice."""

    name: ClassVar[Engine]
    family: ClassVar[str]
    """The catalog's family of images that contain it."""
    deliveries: ClassVar[tuple[Delivery, ...]]
    """How its server can get the weights, the default first."""
    templates: ClassVar[tuple[str, ...]] = ()
    """lmi's handlers (folders of `templates/`) that this engine can run."""
    devices: ClassVar[tuple[Kind, ...]] = ("gpu",)
    """The kinds of instances that it runs on, the usual one first."""
    local_runtimes: ClassVar[tuple[RuntimeName, ...]] = ()
    """The runtimes of this machine that run it without an image; `container` runs every engine."""

    @abstractmethod
    def handler(self, engine: Handler, task: Task | None, *, version: str = "") -> HandlerSpec:
        """`version` is the server's, empty the newest. Raises Unresolvable if there is no handler."""

    def packages(self, handler: HandlerSpec) -> tuple[str, ...]:
        """The requirements of the worker's environment, as exact PEP 508 requirements, sorted; none if only an image
        contains the engine.
        """
        return ()

    @abstractmethod
    def properties(self, chosen: EngineInputs) -> Pairs:
        """The settings of the server in the order written: of DJLServing those of serving.properties. One of them
        contains the slot; the recipe's options replace ours in place; additional ones follow.
        """

    @abstractmethod
    def artifact(self, spec: Spec) -> tuple[ArtifactFile, ...]:
        """The files that are deployed beside the weights, with the unfilled slot."""

    @abstractmethod
    def environment(self, spec: EngineSpec) -> Pairs:
        """Variables that the server in its image needs; a value may contain the slot. The recipe's replace them."""

    def local_setup(self, spec: EngineSpec, recipe: Recipe, machine: Machine) -> LocalSetup:
        """How it runs on this machine by one of `local_runtimes`. Raises Unresolvable if it cannot as configured."""
        return LocalSetup(packages=spec.packages)

    @abstractmethod
    def probe(self, handler: HandlerSpec, task: Task | None) -> InferenceRequest | None:
        """The probe of a deployment if the recipe has none; None if the recipe must set one."""

    def encode(self, request: InferenceRequest, handler: HandlerSpec, task: Task | None) -> HttpRequest:
        """A whole body as it was given, else JSON. Raises UsageRefused for a request that this handler does not
        support.
        """
        if request.body is not None:
            return HttpRequest(body=request.body, headers=(("Content-Type", request.content_type),))
        encoded = json.dumps(self.body(request, handler, task), ensure_ascii=False).encode()
        return HttpRequest(body=encoded, headers=(("Content-Type", "application/json"),))

    @abstractmethod
    def body(self, request: InferenceRequest, handler: HandlerSpec, task: Task | None) -> dict[str, Any]:
        """The request's body, as JSON. Raises UsageRefused as `encode`."""

    def decoder(self, head: ResponseHead, request: InferenceRequest, handler: HandlerSpec) -> Decoder:
        """Decodes the data after `head`, the response to `request`."""
        return response_decoder(head, full=read_json, line=read_line)
