"""A server of this machine that was started: waited for, asked for one real answer, put at its address."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lmi_deploy.domain import plan
from lmi_deploy.domain.events import Event, Progress
from lmi_deploy.domain.observed import SeenServer
from lmi_deploy.engines.codec import Codec
from lmi_deploy.errors import AccessError, DeployFailed, Overdue
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.model_server import ModelServer
from lmi_deploy.targets.local.http_client import exchange
from lmi_deploy.targets.local.log_file import exception_line, last_lines
from lmi_deploy.targets.probe import TIMEOUT, prove
from lmi_deploy.targets.target import Outcome, Perform

Steps = Generator[Event, None, Outcome]
_POLL = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Proving:
    """It needs no spec: what an `up` left on its way can be brought to its end by another command."""

    name: str
    home: Callable[[str], Path]
    server_of: Callable[[Path], ModelServer]
    clock: Clock
    host: str
    codec: Codec

    def performers(self) -> Perform:
        return {
            plan.AwaitReady: self.wait,
            plan.ProbeServer: self.probe,
            plan.TakeAddress: self.take,
        }

    def wait(self, action: plan.AwaitReady) -> Steps:
        return (yield from self.ready(action.server, plan.key(action), timeout=action.timeout))

    def ready(self, server: str, key: str, *, timeout: int) -> Steps:
        home = self.home(server)
        there = self.server_of(home)
        begun = self.clock.monotonic()
        while (seen := there.look(home)).phase in ("starting", "loading"):
            waited = self.clock.monotonic() - begun
            if waited > timeout:
                raise Overdue(
                    f"{server} did not load the model within {timeout} s",
                    hint=f"raise timeouts.container_startup, or see {there.log(home)}",
                    details=last_lines(there.log(home)),
                )
            yield Progress(key=key, done=round(waited, 1), total=None, unit="seconds", note=seen.phase)
            self.clock.sleep(_POLL)
        if seen.phase != "ready":
            raise _failed(there, home, seen)
        return f"port {seen.port}"

    def probe(self, action: plan.ProbeServer) -> Steps:
        home = self.home(action.server)
        seen = self.server_of(home).look(home)
        if seen.port is None:
            raise AccessError(f"{action.server} has no address yet", hint="run `lmi up` again")
        send = partial(exchange, self.host, seen.port, name=self.name, timeout=TIMEOUT)
        answer = prove(action.probe, self.codec, send, name=self.name, clock=self.clock)
        yield answer
        return f"answered in {answer.seconds:.1f} s"

    def take(self, action: plan.TakeAddress) -> Steps:
        yield from ()
        mine, previous = self.home(action.server), self.home(action.previous)
        self.server_of(mine).take_over(mine, previous, host=action.host, port=action.port)
        return f"{action.host}:{action.port}"


def _failed(there: ModelServer, home: Path, seen: SeenServer) -> DeployFailed:
    told = there.failure(home).splitlines() or last_lines(there.log(home))
    why = exception_line(told) or (told[0] if told else seen.phase)
    return DeployFailed(
        f"the model server did not come up: {why}",
        hint=f"the worker's last lines are above; all of them are in {there.log(home)}",
        details=told,
    )
