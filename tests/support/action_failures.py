"""Trouble at one step of a plan: an error, or the end of the process, before or after the step's effect."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from lmi_deploy.domain.artifact import Artifact
from lmi_deploy.domain.events import Event
from lmi_deploy.domain.inference_http import HttpRequest, ResponseHead
from lmi_deploy.domain.observed import Inventory, Observed
from lmi_deploy.domain.plan import Action
from lmi_deploy.domain.record import DeploymentRef, Generation, Record
from lmi_deploy.domain.spec import Spec
from lmi_deploy.errors import DeployFailed
from lmi_deploy.ports.hub import Hub
from lmi_deploy.ports.journal import Journal
from lmi_deploy.targets.target import Outcome, Perform, Target

When = Literal["before", "after"]
Performer = Callable[[Any], Generator[Event, None, Outcome]]


class Killed(BaseException):
    """kill -9, as far as one process can play it: nobody catches it, and everything is built anew from disk."""


def fail() -> BaseException:
    return DeployFailed("the step failed", hint="this is a test")


class Around(Protocol):
    """What stands around every action that is performed."""

    def around(self, perform: Perform) -> Perform: ...


@dataclass
class ActionFailures:
    """The `at`-th action that is performed meets `error`."""

    at: int
    when: When
    error: Callable[[], BaseException]
    count: int = 0

    def around(self, perform: Perform) -> Perform:
        return {kind: self._around(performer) for kind, performer in perform.items()}

    def _around(self, performer: Performer) -> Performer:
        def performed(action: Action) -> Generator[Event, None, Outcome]:
            own = self.count == self.at
            self.count += 1
            if own and self.when == "before":
                raise self.error()
            outcome = yield from performer(action)
            if own:
                raise self.error()
            return outcome

        return performed


@dataclass(frozen=True)
class FailingTarget:
    """A target whose writes meet trouble."""

    target: Target
    failures: Around

    def remember(self, ref: DeploymentRef) -> None:
        self.target.remember(ref)

    def deploy_actions(self, spec: Spec, artifact: Artifact, hub: Hub) -> Perform:
        return self.failures.around(self.target.deploy_actions(spec, artifact, hub))

    def teardown_actions(self, ref: DeploymentRef) -> Perform:
        return self.failures.around(self.target.teardown_actions(ref))

    def observe(self, ref: DeploymentRef) -> Observed:
        return self.target.observe(ref)

    def inspect(self, ref: DeploymentRef) -> Observed:
        return self.target.inspect(ref)

    def read_record(self, ref: DeploymentRef) -> Record | None:
        return self.target.read_record(ref)

    def confirm(self, observed: Observed) -> Observed:
        return self.target.confirm(observed)

    def observe_all(self, ref: DeploymentRef) -> Observed:
        return self.target.observe_all(ref)

    def inventory(self, spec: Spec, hub: Hub) -> Inventory:
        return self.target.inventory(spec, hub)

    def with_prices(self, spec: Spec, inventory: Inventory) -> Inventory:
        return self.target.with_prices(spec, inventory)

    def list_known(self) -> tuple[DeploymentRef, ...]:
        return self.target.list_known()

    def invoke(
        self, ref: DeploymentRef, request: HttpRequest, *, timeout: float
    ) -> Iterator[ResponseHead | bytes]:
        return self.target.invoke(ref, request, timeout=timeout)

    def address(self, ref: DeploymentRef) -> str:
        return self.target.address(ref)

    def logs(self, ref: DeploymentRef, *, follow: bool) -> Iterator[str]:
        return self.target.logs(ref, follow=follow)


@dataclass(frozen=True)
class KilledAtCommit:
    """A journal whose process ends around the moment at which a new generation becomes the current one."""

    journal: Journal
    when: When

    def begin(self, action: Action) -> None:
        self.journal.begin(action)

    def complete(self, action: Action, outcome: str) -> None:
        self.journal.complete(action, outcome)

    def set_pending(self, generation: Generation) -> None:
        self.journal.set_pending(generation)

    def commit(self, generation: Generation) -> None:
        if self.when == "after":
            self.journal.commit(generation)
        raise Killed
