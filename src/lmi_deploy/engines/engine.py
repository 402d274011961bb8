"""The interface of an inference engine: one folder each, whose module `engine` is in the registry."""

from __future__ import annotations

from typing import Protocol

from lmi_deploy.catalog.instances import Kind
from lmi_deploy.domain.deployment_artifact import ArtifactFile
from lmi_deploy.domain.deployment_spec import EngineSpec, HandlerSpec, Spec
from lmi_deploy.domain.environment_setup import LocalSetup
from lmi_deploy.domain.gathered_facts import Machine
from lmi_deploy.domain.inference_http import Chunk, HttpRequest, InferenceRequest, ResponseHead
from lmi_deploy.domain.recipe_endpoint_keys import RuntimeName
from lmi_deploy.domain.recipe_keys import Engine, Handler, Pairs, Recipe, Task
from lmi_deploy.domain.sagemaker.resource_settings import Delivery


class Decoder(Protocol):
    """Decodes the bytes of one response, however they were split, into pieces."""

    def feed(self, data: bytes) -> list[Chunk]:
        """The chunks that can be decoded after `data`."""

    def close(self) -> list[Chunk]:
        """The chunks that are known only at the end of the response."""


class EngineModule(Protocol):
    """A module with these names; all of them pure. The `handler` argument is the recipe's request, the result is the
    choice.
    """

    @property
    def name(self) -> Engine: ...

    @property
    def family(self) -> str:
        """The catalog's family of images that contain it."""

    @property
    def templates(self) -> tuple[str, ...]:
        """lmi's handlers (folders of `templates/`) that this engine can run."""

    @property
    def devices(self) -> tuple[Kind, ...]:
        """The kinds of instances that it runs on, the usual one first."""

    @property
    def local_runtimes(self) -> tuple[RuntimeName, ...]:
        """The runtimes of this machine that run it without an image; `container` runs every engine."""

    @property
    def deliveries(self) -> tuple[Delivery, ...]:
        """How its server can get the weights, the default first."""

    def handler(self, engine: Handler, task: Task | None, *, version: str = "") -> HandlerSpec:
        """`version` is the server's, empty the newest. Raises Unresolvable if there is no handler."""

    def packages(self, handler: HandlerSpec) -> tuple[str, ...]:
        """The requirements of the worker's environment, as exact PEP 508 requirements, sorted."""

    def properties(
        self,
        handler: HandlerSpec,
        options: Pairs,
        *,
        task: Task | None,
        tensor_parallel_degree: int,
        version: str = "",
    ) -> Pairs:
        """The settings of the server in the order written: of DJLServing those of serving.properties. One of them
        contains the slot; `options` (the recipe's, without `option.`) replace ours in place; additional ones follow.
        """

    def artifact(self, spec: Spec) -> tuple[ArtifactFile, ...]:
        """The files that are deployed beside the weights, with the unfilled slot."""

    def environment(self, spec: EngineSpec) -> Pairs:
        """Variables that the server in its image needs; a value may contain the slot. The recipe's replace them."""

    def local_setup(self, spec: EngineSpec, recipe: Recipe, machine: Machine) -> LocalSetup:
        """How it runs on this machine by one of `local_runtimes`. Raises Unresolvable if it cannot as configured."""

    def probe(self, handler: HandlerSpec, task: Task | None) -> InferenceRequest | None:
        """The probe of a deployment if the recipe has none; None if the recipe must set one."""

    def encode(self, prompt: InferenceRequest, handler: HandlerSpec, task: Task | None) -> HttpRequest:
        """Raises UsageRefused for a request that this handler does not support."""

    def decoder(self, head: ResponseHead, prompt: InferenceRequest, handler: HandlerSpec) -> Decoder:
        """Decodes the data after `head`, the response to `prompt`."""
