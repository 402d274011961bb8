"""An installed DJLServing, started as for the recordings; for replays against the real server."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.listening_program import PortListener, listening
from tests.support.running_server import worker_python


@contextmanager
def installed(folder: Path, *arguments: str, environ: Mapping[str, str]) -> Iterator[PortListener]:
    """Takes the same arguments as our own server."""
    given = dict(zip(arguments[::2], arguments[1::2], strict=True))
    config = Path(given["--config"])
    run_dir = config.parent / "tmp"
    run_dir.mkdir()
    log = config.parent / "server.log"
    own = {
        "JAVA_OPTS": f"{shlex.quote(f'-Djava.io.tmpdir={run_dir}')} {environ.get('JAVA_OPTS', '')}".strip(),
        "PYTHON_EXECUTABLE": worker_python(),
        "DJL_CACHE_DIR": str(config.parent / "cache"),
        "MODEL_SERVER_HOME": os.environ["DJL_SERVING_HOME"],
    }
    program = Path(os.environ["DJL_SERVING_HOME"], "bin", "serving")
    # Settings in the file that say what to load are kept; the recorded ones leave it to the command line.
    argv = [str(program), "-f", str(config), "-s", str(folder)]
    with listening(
        argv, port=int(given["--port"]), run_dir=run_dir, log=log, environ={**environ, **own}
    ) as running:
        yield running


def unpacked(folder: Path) -> Path:
    """The Python engine that it unpacked."""
    return next((folder / "cache" / "python").iterdir())
