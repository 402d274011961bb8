"""`python -m tests.support.cloud_lifecycle_program ARGUMENTS`: `lmi` in a process of its own, which ends at any action.

As the command wires itself. With LMI_TEST_END=`SIGKILL before CreateModel` (or SIGINT, or after) the process gets
that signal, for real, before or after the effect of that action.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator
from dataclasses import dataclass, replace

from lmi_deploy.cli.context import DepsFactory
from lmi_deploy.cli.exit_codes import run
from lmi_deploy.cli.group import lmi
from lmi_deploy.composition.local import wire
from lmi_deploy.domain.events import Event
from lmi_deploy.domain.plan import Action
from lmi_deploy.targets.target import Outcome, Perform
from lmi_deploy.workflows.dependencies import Deps
from tests.support.action_failures import Performer, TroubledTarget

END = "LMI_TEST_END"


@dataclass(frozen=True)
class Signalled:
    """The action of that name meets the signal."""

    number: signal.Signals
    when: str
    action: str

    def around(self, perform: Perform) -> Perform:
        return {
            kind: self._around(performer) if kind.__name__ == self.action else performer
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


def deps() -> Deps:
    found = wire(os.environ, tell=tell)
    wish = os.environ.get(END, "").split()
    if not wish:
        return found
    signalled = Signalled(signal.Signals[wish[0]], wish[1], wish[2])
    troubled = TroubledTarget(found.targets["sagemaker"], signalled)
    return replace(found, targets={**found.targets, "sagemaker": troubled})


if __name__ == "__main__":
    sys.exit(run(lmi, sys.argv[1:], given=DepsFactory(deps)))
