"""How `lmi adopt` reads an endpoint that another tool made, and plans to take it over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from lmi_deploy.domain.permissions import PolicyStatement
from lmi_deploy.domain.plan import Plan
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.record import DeploymentRef, Generation
from lmi_deploy.domain.sagemaker.foreign_endpoint import ForeignEndpoint, ModelFiles
from lmi_deploy.ports.object_store import ObjectStore
from lmi_deploy.recipe.import_settings import ImportSource
from lmi_deploy.targets.target import Perform


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLocation:
    """Where the model's files are: `path` is a prefix that ends with a slash, or the key of an archive."""

    store: ObjectStore
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """`plan` is empty if every tag is set; `generation` is None if the record has it already."""

    ref: DeploymentRef
    plan: Plan
    generation: Generation | None
    notices: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        return self.plan.empty and self.generation is None


class EndpointAdopter(Protocol):
    def read(self, name: str, region: str) -> ForeignEndpoint:
        """NotFound if there is no such endpoint; Refused if no recipe can say what it is."""

    def model_location(self, foreign: ForeignEndpoint) -> ModelLocation | None:
        """None if the model has no files in S3. NotFound and AccessError if its bucket cannot be read."""

    def recipe_source(self, foreign: ForeignEndpoint, files: ModelFiles) -> tuple[ImportSource, str]:
        """What its recipe is written from, and the version of DJLServing; empty: the newest."""

    def plan(self, foreign: ForeignEndpoint, recipe: Recipe, *, force: bool) -> Adoption:
        """Refused for what must not be adopted; with `force`, what another tool manages may be."""

    def actions(self, ref: DeploymentRef) -> Perform:
        """The writes of such a plan."""

    def permissions(self, foreign: ForeignEndpoint) -> Iterator[PolicyStatement]:
        """What a deployer needs for it, in addition to the policy of its recipe."""
