"""`python -m tests.support.cloud_lifecycle_program ARGUMENTS`: `lmi` in a process of its own, which can end at
any action.

Composed as the command itself. With LMI_TEST_END=`SIGKILL before CreateModel` (or SIGINT, or after) the process
gets that signal, for real, before or after the effect of that action.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator
from dataclasses import dataclass, replace

from lmi_deploy.cli.command_group import lmi
from lmi_deploy.cli.context import DependenciesFactory
from lmi_deploy.cli.error_boundary import run
from lmi_deploy.composition.local import wire
from lmi_deploy.domain.events import Event
from lmi_deploy.domain.plan import Action
from lmi_deploy.targets.target import Outcome, Perform
from lmi_deploy.workflows.dependencies import Dependencies
from tests.support.action_failures import Performer, failing

END = "LMI_TEST_END"


@dataclass(frozen=True)
class Signalled:
    """The action of that name meets the signal."""

    number: signal.Signals
    when: str
    action: str

    def around(self, perform: Perform) -> Perform:
        return {
            kind: self._around(performer) if kind.kind == self.action else performer
            for kind, performer in perform.items()
        }

    def _around(self, performer: Performer) -> Performer:
        def performed(action: Action) -> Generator[Event, None, Outcome]:
            if self.when == "before":
                os.kill(os.getpid(), self.number)
            outcome = yield from performer(action)
            os.kill(os.getpid(), self.number)
            return outcome

        return performed


def tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def deps() -> Dependencies:
    found = wire(os.environ, notify=tell)
    engine = os.environ.get(END, "").split()
    if not engine:
        return found
    signalled = Signalled(signal.Signals[engine[0]], engine[1], engine[2])
    troubled = failing(found.targets["sagemaker"], signalled)
    return replace(found, targets={**found.targets, "sagemaker": troubled})


if __name__ == "__main__":
    sys.exit(run(lmi, sys.argv[1:], given=DependenciesFactory(deps)))
