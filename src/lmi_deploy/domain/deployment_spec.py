"""The complete decisions: what will run, where, from which bytes. A field is optional only if its object may be
absent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.environment_setup import PLAIN, EnvironmentSetup
from lmi_deploy.domain.gathered_facts import FileEntry, ModelListing, ModelSource
from lmi_deploy.domain.in_place_weights import InPlaceWeights
from lmi_deploy.domain.inference_http import ProbeSpec
from lmi_deploy.domain.recipe_endpoint_keys import TargetName
from lmi_deploy.domain.recipe_keys import Engine, Pairs, Task
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.serving_record import share_words
from lmi_deploy.domain.settings_digest import ADDED, digest, digest_tag, short
from lmi_deploy.domain.target_spec import LocalPlace, Place, SageMakerPlace
from lmi_deploy.domain.weights import selection_digest, weights_name


@digest_tag("ModelSpec")
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    model_id: str
    revision: str
    commit: str
    source: ModelSource
    task: Task | None
    """None: unknown, which only a custom handler may leave so."""
    architecture: str | None
    max_positions: int | None
    """Tokens of context in the model's config; None if it states none."""

    def listing(self, files: tuple[FileEntry, ...]) -> ModelListing:
        """The repository again, as far as the chosen files."""
        return ModelListing(model_id=self.model_id, commit=self.commit, files=files, source=self.source)


@digest_tag("HandlerSpec")
@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerSpec:
    """`entry_point` is passed to the server; `template` is the name of lmi's template, None if the code is not from
    lmi.
    """

    entry_point: str
    template: str | None


@digest_tag("EngineSpec")
@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSpec:
    name: Engine
    tensor_parallel_degree: int
    handler: HandlerSpec
    properties: Pairs
    """All of serving.properties but the weights' slot, in the order written."""
    packages: tuple[str, ...]
    """The requirements of the worker's environment (PEP 508), before the recipe's own."""


@digest_tag("AdditionalModel")
@dataclass(frozen=True, slots=True, kw_only=True)
class AdditionalModel:
    """A model that is served with the main one: a LoRA adapter, or the draft model of speculative decoding."""

    role: Literal["adapter", "draft"]
    name: str
    """Of an adapter: its name in requests. A draft model has none."""
    model_id: str
    revision: str
    commit: str
    source: ModelSource
    files: tuple[FileEntry, ...]
    """The chosen files, sorted by path."""

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def listing(self) -> ModelListing:
        """The repository again, as far as the chosen files."""
        return ModelListing(model_id=self.model_id, commit=self.commit, files=self.files, source=self.source)

    @property
    def weights_name(self) -> str:
        """Its name in a bucket."""
        return weights_name(self.model_id, self.commit, self.files)

    @property
    def title(self) -> str:
        """For people."""
        return f"adapter {self.name}" if self.role == "adapter" else "draft model"


@digest_tag("WeightsSpec")
@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsSpec:
    """The chosen files, sorted by path, and why each other file was left out (reason, number of files)."""

    files: tuple[FileEntry, ...]
    left_out: tuple[tuple[str, int], ...]
    additional: tuple[AdditionalModel, ...] = field(default=(), metadata=ADDED)
    """Adapters by name, then the draft model."""
    compiled: str = field(default="", metadata=ADDED)
    """If the files are the result of `lmi compile`: its identity, in place of the model's commit."""

    in_place: InPlaceWeights | None = field(default=None, metadata=ADDED)
    """With `weights.in_place`: the objects that the endpoint reads; `files` are theirs."""

    @property
    def size(self) -> int:
        """Bytes of the main model."""
        return sum(file.size for file in self.files)

    @property
    def total_size(self) -> int:
        """Bytes with the additional models."""
        return self.size + sum(each.size for each in self.additional)

    @property
    def size_without_adapters(self) -> int:
        """Bytes of the main model and of the draft model."""
        return self.total_size - sum(each.size for each in self.adapters)

    @property
    def adapters(self) -> tuple[AdditionalModel, ...]:
        return tuple(each for each in self.additional if each.role == "adapter")

    @property
    def draft(self) -> AdditionalModel | None:
        return next((each for each in self.additional if each.role == "draft"), None)

    @property
    def selection(self) -> str:
        """8 hex over the sorted (path, size, oid) list (design, decision 5)."""
        return selection_digest(self.files)


@digest_tag("Inputs")
@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The user's own files, as bytes; empty if there are none."""

    model_py: bytes
    requirements: bytes
    extra: tuple[tuple[str, bytes], ...] = field(default=(), metadata=ADDED)
    """Further files of the artifact, by path."""


@digest_tag("Spec")
@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    name: str
    model: ModelSpec
    engine: EngineSpec
    weights: WeightsSpec
    inputs: Inputs
    probe: ProbeSpec
    place: Place
    candidate: CandidateSpec | None = field(default=None, metadata=ADDED)

    @property
    def target(self) -> TargetName:
        return self.place.target

    @property
    def ref(self) -> DeploymentRef:
        """How the deployment is found again."""
        return self.place.ref(self.name)

    @property
    def listings(self) -> tuple[ModelListing, ...]:
        """The chosen files of each model that it serves, those of its candidate among them."""
        own = (self.model.listing(self.weights.files), *(each.listing for each in self.weights.additional))
        return (*own, *(self.candidate.spec.listings if self.candidate else ()))

    @property
    def machine(self) -> LocalPlace:
        """Its place, if that is this machine: for the modules of target local."""
        assert isinstance(self.place, LocalPlace)
        return self.place

    @property
    def cloud(self) -> SageMakerPlace:
        """Its place, if that is SageMaker: for the modules of target sagemaker."""
        assert isinstance(self.place, SageMakerPlace)
        return self.place

    @property
    def shares_endpoint(self) -> bool:
        """Whether it is an inference component on an endpoint that others use, too."""
        return isinstance(self.place, SageMakerPlace) and self.place.component is not None

    @property
    def has_adapter_components(self) -> bool:
        """Whether each adapter is an inference component: on a shared endpoint. Else the artifact has them."""
        return self.shares_endpoint and bool(self.weights.adapters)

    @property
    def digest(self) -> str:
        return digest(self)

    @property
    def environment(self) -> str:
        """The name of the worker's environment on this machine; of a spec for another target, to try its handler."""
        requirements = self.inputs.requirements.decode("utf-8", "replace")
        if isinstance(self.place, LocalPlace):
            return environment_name(self.place.packages, requirements, self.place.setup)
        return environment_name(self.engine.packages, requirements)


@digest_tag("CandidateSpec")
@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateSpec:
    """A second version on the same endpoint: with its own model, image and instances, under the deployment's name."""

    spec: Spec
    artifact: Artifact
    percent: int
    """Of the requests: those that it answers; of a shadow variant those that it gets a copy of."""
    shadow: bool

    @property
    def words(self) -> str:
        return share_words(self.percent, shadow=self.shadow)


def environment_name(packages: tuple[str, ...], requirements: str, setup: EnvironmentSetup = PLAIN) -> str:
    """A worker's environment is named by what is installed in it."""
    other = [] if setup == PLAIN else [setup]
    return short(digest([list(packages), requirements, *other]), 12)
