"""The end of a model server: its last requests are waited for, one that answers nobody is not."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from pathlib import Path

from lmi_deploy.domain.events import Event, Line, Progress
from lmi_deploy.errors import DeployFailed
from lmi_deploy.ports.model_server import ModelServer

DRAIN = 90.0
"""Seconds a server may take for its last requests; above the server's own limit of 60."""
UNHEARD = 3.0
"""Seconds after SIGTERM for one that answers nobody (it hangs, is stopped, or has only just started)."""


def stop(server: ModelServer, home: Path, *, key: str) -> Generator[Event, None, None]:
    """End it and remove its home. DeployFailed where it is there all the same."""
    seen = server.look(home)
    mute = seen.phase == "starting"
    if seen.in_flight:
        note = f"{seen.in_flight} requests in flight"
        yield Progress(key=key, done=0, total=None, unit="seconds", note=note)
    if mute:
        text = (
            f"{home.name} (pid {seen.pid}) runs and answers nobody: SIGTERM, and SIGKILL after {UNHEARD:g} s"
        )
        yield Line(key=key, text=text)
    server.stop(home, grace=UNHEARD if mute else DRAIN)
    left = server.look(home)
    if left.phase != "gone":
        raise DeployFailed(
            f"{home.name} is still {left.phase} (pid {left.pid})", hint="run the command again"
        )
    shutil.rmtree(home, ignore_errors=True)
