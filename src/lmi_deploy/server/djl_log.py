"""The log in the format that DJLServing writes to CloudWatch, to test metric filters without an endpoint.

On SageMaker DJLServing uses log4j2-plain.xml (serving/build.gradle.kts of djl-serving). Its pattern for the console
is `[%-5level] %c{1} - %msg%n`, without a time: CloudWatch adds its own. Lines that only this server writes have the
logger name `lmi`.
"""

from __future__ import annotations

from lmi_deploy.server.log import Log

_LONGEST_NAME = 15
_METRICS = "[METRICS]"


class DjlLog(Log):
    """The same events as `Log`, in DJLServing's form."""

    def event(self, what: str, *, level: str = "INFO", **facts: object) -> None:
        text = "".join(f" {key}={value}" for key, value in facts.items())
        self._print(f"[{level:<5}] lmi - {what}{text}")

    def worker(self, pid: int, line: str, *, level: str, model: str, stream: str) -> None:
        """The level is that of the stream, even if the line names another one; DJLServing writes metrics to another
        file.
        """
        if _METRICS in line:
            return
        at = "WARN " if stream == "stderr" else "INFO "
        self._print(f"[{at}] PyProcess - W-{pid}-{model[:_LONGEST_NAME]}-{stream}: {line}")

    def djl(self, logger: str, text: str, *, level: str = "INFO", causes: tuple[str, ...] = ()) -> None:
        self._print(f"[{level:<5}] {logger} - {text}")
        for line in causes:
            self._print(line)

    def _write(self, text: str) -> None:
        """Write a line without a level."""
        self._print(text)
