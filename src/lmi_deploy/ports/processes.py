"""Programs on this machine that outlive the command that started them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

Report = Callable[[str], None]
"""Is given each line that a program prints."""
Release = Callable[[], None]
"""From now on nothing is removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """`started`, an opaque text, distinguishes it from a later process of the same number."""

    pid: int
    started: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """The exit code of a short command, and its output."""

    code: int
    out: str
    err: str


class Processes(Protocol):
    def run(
        self, argv: Sequence[str], *, environment: Mapping[str, str], timeout: float, stdin: str = ""
    ) -> CommandResult:
        """Run a short command to its end; code 127 if it cannot be run, 124 after a time-out."""

    def start(self, argv: Sequence[str], *, log: Path, cwd: Path, environment: Mapping[str, str]) -> Process:
        """Start it detached, in its own session, its output appended to `log`."""

    def foreground(
        self, argv: Sequence[str], *, environment: Mapping[str, str], report: Report | None = None
    ) -> int:
        """Run it; it receives Ctrl-C first. Returns its exit code. Its output goes to this process's own streams, or
        line by line to `report`.
        """

    def identify(self, pid: int) -> Process | None:
        """The process that has this id now."""

    def alive(self, process: Process) -> bool:
        """Whether this very process runs still (a zombie does not)."""

    def end(self, process: Process, *, grace: float) -> None:
        """SIGTERM, `grace` seconds, SIGKILL; returns when it has exited."""

    def cleanup_on_exit(self, mark: str, *, folders: Sequence[Path]) -> AbstractContextManager[Release]:
        """When the context ends, or this process is killed: processes with the variable `mark` and these folders are
        removed. After a call of the Release that it gives, they stay.
        """

    def memory(self, process: Process) -> int:
        """Resident bytes of it and its children; 0 if it has exited."""
