"""`python -m tests.support.lifecycle_program ARGUMENTS`: `lmi` in its own process, which can be killed at any
action.

Composed as the command itself, except for the serving environment: it is this interpreter, ready immediately.
With LMI_TEST_KILL=`NUMBER:before` or `NUMBER:after` it gets a real SIGKILL before or after the effect of that
action.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path

from lmi_deploy.cli.command_group import lmi
from lmi_deploy.cli.context import DependenciesFactory
from lmi_deploy.cli.error_boundary import run
from lmi_deploy.composition.local import wire
from lmi_deploy.domain.environment_setup import PLAIN, EnvironmentSetup
from lmi_deploy.domain.events import Event
from lmi_deploy.targets.local.target import LocalTarget
from lmi_deploy.targets.target import AnyTarget
from lmi_deploy.workflows.dependencies import Dependencies
from tests.support.action_failures import ActionFailures, When, failing
from tests.support.djl_engine import engine_dir
from tests.support.fakes import FakeEnvironments
from tests.support.running_server import worker_python


@dataclass
class SharedEnvironments(FakeEnvironments):
    """The list of environments is stored on disk, so that the next process finds it."""

    def ready(self, environment: str) -> bool:
        return (self.root / environment).exists()

    def build(
        self,
        environment: str,
        packages: tuple[str, ...],
        requirements: str,
        setup: EnvironmentSetup = PLAIN,
        *,
        key: str,
    ) -> Generator[Event, None, str]:
        yield from ()
        return self._made(environment)

    def engine_ready(self, version: str) -> bool:
        return (self.root / f"engine-{version}").exists()

    def install_engine(self, version: str, *, key: str) -> Generator[Event, None, str]:
        yield from ()
        return self._made(f"engine-{version}")

    def python(self, environment: str) -> Path:
        return Path(worker_python())

    def engine(self, version: str) -> Path:
        return engine_dir()

    def _made(self, name: str) -> str:
        (self.root / name).mkdir(parents=True, exist_ok=True)
        return "made"


def killed() -> BaseException:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("a process that got SIGKILL goes on")


def deps() -> Dependencies:
    found = wire(os.environ)
    environments = SharedEnvironments(Path(os.environ["LMI_STATE_HOME"]).with_name("made"))
    local = found.targets["local"]
    assert isinstance(local, LocalTarget)
    target: AnyTarget = replace(local, environments=environments)
    if engine := os.environ.get("LMI_TEST_KILL"):
        at, _, when = engine.partition(":")
        moment: When = "before" if when == "before" else "after"
        target = failing(target, ActionFailures(int(at), moment, killed))
    return replace(found, environments=environments, targets={"local": target})


if __name__ == "__main__":
    sys.exit(run(lmi, sys.argv[1:], given=DependenciesFactory(deps)))
