"""Wait for a started server on this machine, probe it, and give it the address."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lmi_deploy.domain import local_actions
from lmi_deploy.domain.events import Event, Progress
from lmi_deploy.domain.observed_state import ObservedServer
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.engines.inference_codec import Codec
from lmi_deploy.errors import AccessError, DeployFailed, Overdue
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.model_server import ModelServer
from lmi_deploy.targets.inference_probe import TIMEOUT, probe
from lmi_deploy.targets.local.http_client import exchange
from lmi_deploy.targets.local.log_file import exception_line, last_lines
from lmi_deploy.targets.target import Outcome, Perform

Steps = Generator[Event, None, Outcome]
_POLL = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadinessCheck:
    """It needs no spec: another command can complete what an `up` left unfinished."""

    name: str
    home: Callable[[str], Path]
    server_of: Callable[[Path], ModelServer]
    clock: Clock
    host: str
    codec: Codec

    def performers(self) -> Perform:
        return {
            local_actions.AwaitReady: self.wait,
            local_actions.ProbeServer: self.probe,
            local_actions.TakeAddress: self.take,
        }

    def wait(self, action: local_actions.AwaitReady) -> Steps:
        return (yield from self.ready(action.server, action.key, timeout=action.timeout))

    def ready(self, server: str, key: str, *, timeout: int) -> Steps:
        home = self.home(server)
        model_server = self.server_of(home)
        started = self.clock.monotonic()
        while (observed := model_server.status(home)).phase in ("starting", "loading"):
            waited = self.clock.monotonic() - started
            if waited > timeout:
                raise Overdue(
                    f"{server} did not load the model within {timeout} s",
                    hint=f"raise timeouts.container_startup, or check {model_server.log(home)}",
                    details=last_lines(model_server.log(home)),
                )
            yield Progress(key=key, done=round(waited, 1), total=None, unit="seconds", note=observed.phase)
            self.clock.sleep(_POLL)
        if observed.phase != "ready":
            raise _failed(model_server, home, observed)
        return f"port {observed.port}"

    def probe(self, action: local_actions.ProbeServer) -> Steps:
        home = self.home(action.server)
        observed = self.server_of(home).status(home)
        if observed.port is None:
            raise AccessError(f"{action.server} has no address yet", hint="run `lmi up` again")
        send = partial(exchange, self.host, observed.port, name=self.name, timeout=TIMEOUT)
        ref = DeploymentRef(name=self.name, target="local")
        return (yield from probe(action.probe, self.codec, send, ref=ref, clock=self.clock))

    def take(self, action: local_actions.TakeAddress) -> Steps:
        yield from ()
        own, previous = self.home(action.server), self.home(action.previous)
        self.server_of(own).take_over(own, previous, host=action.host, port=action.port)
        return f"{action.host}:{action.port}"


def _failed(server: ModelServer, home: Path, observed: ObservedServer) -> DeployFailed:
    lines = server.failure(home).splitlines() or last_lines(server.log(home))
    why = exception_line(lines) or (lines[0] if lines else observed.phase)
    return DeployFailed(
        f"the model server failed to start: {why}",
        hint=f"read the worker's last lines above; the whole log is {server.log(home)}",
        details=lines,
    )
