"""A failure at one step of a plan: an error, or the end of the process, before or after the step's effect."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast

from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.events import Event
from lmi_deploy.domain.plan import Action
from lmi_deploy.domain.record import AN_UP, DeploymentRef, Generation, Record, ServingChange
from lmi_deploy.errors import DeployFailed
from lmi_deploy.ports.journal import Journal
from lmi_deploy.targets.model_compiler import ModelCompiler
from lmi_deploy.targets.target import AnyTarget, Hubs, Outcome, Perform

When = Literal["before", "after"]
Performer = Callable[[Any], Generator[Event, None, Outcome]]


class Killed(BaseException):
    """kill -9, simulated in one process: no code catches it, and all objects are built again from disk."""


def fail() -> BaseException:
    return DeployFailed("the step failed", hint="this is a test")


class Around(Protocol):
    """Wraps every action that is performed."""

    def around(self, perform: Perform) -> Perform: ...


@dataclass
class ActionFailures:
    """The `at`-th performed action meets `error`."""

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


class FailingTarget:
    """A target whose writes fail as configured; everything else is its own."""

    def __init__(self, target: AnyTarget, failures: Around) -> None:
        self._target, self._failures = target, failures

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def deploy_actions(self, spec: Spec, artifact: Artifact, hubs: Hubs) -> Perform:
        return self._failures.around(self._target.deploy_actions(spec, artifact, hubs))

    def teardown_actions(self, ref: DeploymentRef) -> Perform:
        return self._failures.around(self._target.teardown_actions(ref))


def failing(target: AnyTarget, failures: Around) -> AnyTarget:
    return cast("AnyTarget", FailingTarget(target, failures))


@dataclass(frozen=True)
class KilledAtCommit:
    """A journal whose process ends before or after a new generation becomes the current one."""

    journal: Journal
    when: When

    def begin(self, action: Action) -> None:
        self.journal.begin(action)

    def complete(self, action: Action, outcome: str) -> None:
        self.journal.complete(action, outcome)

    def set_pending(self, generation: Generation) -> None:
        self.journal.set_pending(generation)

    def accept(self, server: str) -> None:
        self.journal.accept(server)

    def restore(self, record: Record) -> None:
        self.journal.restore(record)

    def commit(self, generation: Generation, change: ServingChange = AN_UP) -> None:
        if self.when == "after":
            self.journal.commit(generation, change)
        raise Killed


class FailingCompiler:
    """The same for the writes of a compile."""

    def __init__(self, compiler: ModelCompiler, failures: Around) -> None:
        self._compiler, self._failures = compiler, failures

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiler, name)

    def actions(self, spec: Spec, artifact: Artifact, hubs: Hubs) -> Perform:
        return self._failures.around(self._compiler.actions(spec, artifact, hubs))


def failing_compiler(compiler: ModelCompiler, failures: Around) -> ModelCompiler:
    return cast("ModelCompiler", FailingCompiler(compiler, failures))
