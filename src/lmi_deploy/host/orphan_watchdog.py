"""`python -m lmi_deploy.host.orphan_watchdog MARK [FOLDER ...]`: cleans up after the program that started it.

If that program is killed, it cannot clean up: but its end of the pipe that is our standard input is closed in any
case. A byte in that pipe says that nothing is to be removed. The processes to remove are found by a variable in the
environment of everything that it started.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO

from lmi_deploy.host.clock import SystemClock
from lmi_deploy.host.processes import end_marked
from lmi_deploy.ports.processes import Release


@contextmanager
def run_watchdog(mark: str, folders: Sequence[Path]) -> Iterator[Release]:
    argv = [sys.executable, "-m", __name__, mark, *map(str, folders)]
    environ = {key: value for key, value in os.environ.items() if key != mark}
    # In a separate session: a signal to our process group, from a terminal or to kill it, must not reach it.
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environ, start_new_session=True
    ) as watchdog:
        assert watchdog.stdin is not None
        yield partial(_release, watchdog.stdin)


def _release(pipe: IO[bytes]) -> None:
    # A watchdog that was killed itself removes nothing.
    with suppress(BrokenPipeError):
        pipe.write(b"k")
        pipe.flush()


def main(mark: str, *folders: str) -> None:
    # A child between fork and exec also has the other end open: at the end of file, all have their environment.
    if sys.stdin.buffer.read():
        return
    end_marked(mark, SystemClock())
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
