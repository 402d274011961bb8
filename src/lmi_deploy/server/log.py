"""The server's log in our format and in DJLServing's: one line per event, the workers' own lines among them."""

from __future__ import annotations

import contextlib
import datetime
import sys
import traceback

_LONGEST_NAME = 15  # of a model, in DJLServing's lines


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
        """A line as DJLServing writes it, if `DjlLog` is the log."""

    def _write(self, text: str) -> None:
        # The reader of the log is gone: that is no reason to stop.
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.write(f"{self._line(text)}\n")
            sys.stdout.flush()

    def _line(self, text: str) -> str:
        now = datetime.datetime.now().astimezone().isoformat(timespec="milliseconds")
        return f"{now} {text}"


class DjlLog(Log):
    """The format that DJLServing writes to CloudWatch, to test metric filters without an endpoint.

    On SageMaker DJLServing uses log4j2-plain.xml (serving/build.gradle.kts of djl-serving). Its pattern for the
    console is `[%-5level] %c{1} - %msg%n`, without a time: CloudWatch adds its own. Lines that only this server
    writes have the logger name `lmi`.
    """

    def event(self, what: str, *, level: str = "INFO", **facts: object) -> None:
        text = "".join(f" {key}={value}" for key, value in facts.items())
        self._write(f"[{level:<5}] lmi - {what}{text}")

    def worker(self, pid: int, line: str, *, level: str, model: str, stream: str) -> None:
        """The level is that of the stream, even if the line names another one; DJLServing writes metrics to another
        file.
        """
        if "[METRICS]" in line:
            return
        at = "WARN " if stream == "stderr" else "INFO "
        self._write(f"[{at}] PyProcess - W-{pid}-{model[:_LONGEST_NAME]}-{stream}: {line}")

    def djl(self, logger: str, text: str, *, level: str = "INFO", causes: tuple[str, ...] = ()) -> None:
        self._write(f"[{level:<5}] {logger} - {text}")
        for line in causes:
            self._write(line)

    def _line(self, text: str) -> str:
        return text
