"""`python -m lmi_deploy.host.orphan_watchdog MARK [FOLDER ...]`: cleans up after the program that started it.

If that program is killed, it cannot clean up: but its end of the pipe that is our standard input is closed in any
case. The processes to remove are found by a variable in the environment of everything that it started.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lmi_deploy.host.clock import SystemClock
from lmi_deploy.host.processes import end_marked


@contextmanager
def run_watchdog(mark: str, folders: Sequence[Path]) -> Iterator[None]:
    argv = [sys.executable, "-m", __name__, mark, *map(str, folders)]
    # In a separate session: a signal to our process group, from a terminal or to kill it, must not reach it.
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True):
        yield


def main(mark: str, *folders: str) -> None:
    # A child between fork and exec also has the other end open: at the end of file, all have their environment.
    sys.stdin.buffer.read()
    end_marked(mark, SystemClock())
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
