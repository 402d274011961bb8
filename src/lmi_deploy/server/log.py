"""The server's log: one line per event on stdout, flushed immediately, including the worker's own lines."""

from __future__ import annotations

import contextlib
import datetime
import sys
import traceback


class Log:
    """Time, level, event; `worker` passes a worker's line on unchanged."""

    def event(self, what: str, *, level: str = "INFO", **facts: object) -> None:
        text = "".join(f" {key}={value}" for key, value in facts.items())
        self._write(f"{level:<5} {what}{text}")

    def warn(self, what: str, **facts: object) -> None:
        self.event(what, level="WARN", **facts)

    def error(self, what: str, **facts: object) -> None:
        self.event(what, level="ERROR", **facts)

    def defect(self, what: str, exc: BaseException) -> None:
        """Log an internal error, which no client can cause, with its traceback."""
        self.error(what, why=f"{type(exc).__name__}: {exc}")
        for line in "".join(traceback.format_exception(exc)).rstrip().splitlines():
            self._write(f"ERROR {line}")

    def worker(self, pid: int, line: str, *, level: str, model: str, stream: str) -> None:
        """`level` is that of the line, if the line starts with one; `stream`: stdout or stderr."""
        self._write(f"{level:<5} [worker {pid}] {line}")

    def djl(self, logger: str, text: str, *, level: str = "INFO", causes: tuple[str, ...] = ()) -> None:
        """A line as DJLServing writes it, if `lmi_deploy.server.djl_log` is the log."""

    def _write(self, text: str) -> None:
        now = datetime.datetime.now().astimezone().isoformat(timespec="milliseconds")
        self._print(f"{now} {text}")

    def _print(self, line: str) -> None:
        # The reader of the log is gone: that is no reason to stop.
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
