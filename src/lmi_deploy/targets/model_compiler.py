"""How a target compiles a model ahead of time, and finds what was compiled: one implementation a target."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar, Protocol

from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.events import Event
from lmi_deploy.domain.gathered_facts import CompiledModel
from lmi_deploy.domain.plan import Estimate, Plan
from lmi_deploy.targets.target import Hubs, Outcome, Perform


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilePlan:
    """What makes a result, its cost, and notices that stop nothing."""

    plan: Plan
    estimate: Estimate
    notices: tuple[str, ...] = ()
    hourly: float | None = 0.0
    """Dollars while it runs; None if it costs, but the price is unknown."""


class ModelCompiler(Protocol):
    """In all methods `spec` is that of the model's own weights; its place says what is compiled, and by what."""

    detached: ClassVar[bool]
    """Whether what makes it costs money, and continues after this process ends."""

    def compiled(self, spec: Spec) -> CompiledModel | None:
        """The complete result, if it was made; None also without a bucket or folder to look into."""

    def plan(self, spec: Spec, hubs: Hubs, recipe: str) -> CompilePlan:
        """What makes it. Raises one error for everything that would stop it. `recipe` is its name for a command
        line.
        """

    def actions(self, spec: Spec, artifact: Artifact, hubs: Hubs) -> Perform:
        """The writes of such a plan."""

    def stop(self, spec: Spec) -> Generator[Event, None, Outcome]:
        """Stop what makes it now, from whichever machine it was started."""

    def running(self, spec: Spec) -> str:
        """What still runs, and costs, after this process ends; in words, empty if nothing does."""
