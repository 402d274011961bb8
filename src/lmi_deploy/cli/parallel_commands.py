"""Several commands of lmi at once, each a process of its own: what interrupts or breaks one leaves the others alone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, Final

from lmi_deploy.domain.events import Event
from lmi_deploy.ui.json_view import parse_event

_LMI: Final = (sys.executable, "-P", "-m", "lmi_deploy")
_POLL: Final = 0.2
"""Seconds: how late the end of a command is noticed if nothing else happens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEnd:
    """The result of one command, as `--json` prints it."""

    name: str
    ok: bool
    result: Mapping[str, Any]


@dataclass(slots=True)
class ParallelCommands:
    """At most `most` run at a time, in the order given; each must print JSON Lines."""

    commands: Mapping[str, Sequence[str]]
    """The arguments after `lmi`, by the name of what the command works on."""
    most: int
    program: Sequence[str] = _LMI
    is_stopped: bool = False
    """By Ctrl-C: the running commands were ended, and no other was started."""
    _events: SimpleQueue[tuple[str, Event]] = field(default_factory=SimpleQueue)
    _ends: dict[str, CommandEnd] = field(default_factory=dict)
    _running: set[subprocess.Popen[str]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(
        self, show: Callable[[str, Event], None], ended: Callable[[CommandEnd], None]
    ) -> list[CommandEnd]:
        """Returns when all have ended, after Ctrl-C too; `show` gets each event, `ended` each end as it comes."""
        left = dict.fromkeys(self.commands)
        with ThreadPoolExecutor(self.most) as pool:
            for name, words in self.commands.items():
                pool.submit(self._run, name, [*self.program, *words])
            try:
                while left:
                    try:
                        self._show_next(show)
                        for end in self._complete():
                            if end.name in left:
                                del left[end.name]
                                ended(end)
                    except KeyboardInterrupt:
                        self._stop()
            except BaseException:
                self._stop()
                raise
        return [self._ends[name] for name in self.commands]

    def _show_next(self, show: Callable[[str, Event], None]) -> None:
        with suppress(Empty):
            show(*self._events.get(timeout=_POLL))

    def _complete(self) -> tuple[CommandEnd, ...]:
        """The ends of commands whose events were all shown: a command's events come before its end."""
        ends = tuple(self._ends.values())
        return ends if self._events.empty() else ()

    def _stop(self) -> None:
        """A terminal has sent SIGINT to all of them already; a second SIGTERM does not interrupt their clean-up."""
        with self._lock:
            self.is_stopped = True
            for process in self._running:
                process.send_signal(signal.SIGTERM)

    def _run(self, name: str, argv: Sequence[str]) -> None:
        """In a thread: never without an end."""
        result: Mapping[str, Any] = {"error": {"message": "not started", "hint": ""}}
        try:
            with self._lock:
                process = None if self.is_stopped else _start(argv)
                if process is not None:
                    self._running.add(process)
            if process is not None:
                result = self._read(name, process)
        except (OSError, ValueError) as reason:
            result = {"error": {"message": f"its process could not be run: {reason}", "hint": ""}}
        finally:
            self._ends[name] = CommandEnd(name=name, ok=result.get("ok") is True, result=result)

    def _read(self, name: str, process: subprocess.Popen[str]) -> Mapping[str, Any]:
        assert process.stdout is not None
        result: Mapping[str, Any] = {}
        with process:
            for line in process.stdout:
                fields = json.loads(line)
                event = parse_event(fields)
                if event is not None:
                    self._events.put((name, event))
                elif fields["event"] == "result":
                    result = fields
        with self._lock:
            self._running.discard(process)
        ended = f"its process ended with code {process.returncode}, and said nothing"
        return result or {"error": {"message": ended, "hint": "run the command again: it continues"}}


def _start(argv: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, encoding="utf-8", errors="replace"
    )
