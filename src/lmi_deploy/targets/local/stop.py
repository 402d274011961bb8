"""Stop a model server: wait for its last requests, but not for a server that does not respond."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from pathlib import Path

from lmi_deploy.domain.events import Event, Line, Progress
from lmi_deploy.errors import DeployFailed
from lmi_deploy.ports.model_server import ModelServer

DRAIN = 90.0
"""Seconds for a server's last requests; above the server's own limit of 60."""
NO_RESPONSE = 3.0
"""Seconds after SIGTERM for a server that does not respond (it hangs, is suspended, or has only just started)."""


def stop(server: ModelServer, home: Path, *, key: str) -> Generator[Event, None, None]:
    """Stop it and remove its home. DeployFailed if it still runs."""
    observed = server.status(home)
    silent = observed.phase == "starting"
    if observed.in_flight:
        note = f"{observed.in_flight} requests in flight"
        yield Progress(key=key, done=0, total=None, unit="seconds", note=note)
    if silent:
        text = (
            f"{home.name} (pid {observed.pid}) does not respond: lmi sends SIGTERM, and SIGKILL after "
            f"{NO_RESPONSE:g} s"
        )
        yield Line(key=key, text=text)
    server.stop(home, grace=NO_RESPONSE if silent else DRAIN)
    left = server.status(home)
    if left.phase != "gone":
        raise DeployFailed(
            f"{home.name} is still {left.phase} (pid {left.pid})", hint="run the command again"
        )
    shutil.rmtree(home, ignore_errors=True)
