"""The server's log: one line an event on stdout, flushed at once, the worker's own lines among them."""

from __future__ import annotations

import contextlib
import datetime
import sys
import traceback


class Log:
    """Time, level, what happened; `worker` passes a worker's line on as it came."""

    def event(self, what: str, *, level: str = "INFO", **facts: object) -> None:
        told = "".join(f" {key}={value}" for key, value in facts.items())
        self._write(f"{level:<5} {what}{told}")

    def warn(self, what: str, **facts: object) -> None:
        self.event(what, level="WARN", **facts)

    def error(self, what: str, **facts: object) -> None:
        self.event(what, level="ERROR", **facts)

    def defect(self, what: str, exc: BaseException) -> None:
        """Something that no client may bring about: told with its traceback, so that it can be mended."""
        self.error(what, why=f"{type(exc).__name__}: {exc}")
        for line in "".join(traceback.format_exception(exc)).rstrip().splitlines():
            self._write(f"ERROR {line}")

    def worker(self, pid: int, level: str, line: str) -> None:
        self._write(f"{level:<5} [worker {pid}] {line}")

    def _write(self, text: str) -> None:
        now = datetime.datetime.now().astimezone().isoformat(timespec="milliseconds")
        with contextlib.suppress(
            OSError, ValueError
        ):  # whoever read the log has gone: that is no reason to stop
            sys.stdout.write(f"{now} {text}\n")
            sys.stdout.flush()
