"""The port CloudLogs: CloudWatch Logs, every stream of a group by time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from lmi_deploy.aws.client import AwsConnection, Service
from lmi_deploy.errors import NotFound

ENDPOINTS: Final = "/aws/sagemaker/Endpoints/"
COMPONENTS: Final = "/aws/sagemaker/InferenceComponents/"
"""SageMaker developer guide, "Logs and metrics in Amazon CloudWatch", log groups of inference components."""
_EVERY: Final = 2.0
_INGESTION_DELAY: Final = 30_000
"""Milliseconds by which a line may arrive later than newer ones."""


class CloudWatchLogs:
    def __init__(self, access: AwsConnection) -> None:
        self._api = Service(access, "logs")

    def group(self, endpoint: str, *, component: bool = False) -> str:
        name = f"{COMPONENTS if component else ENDPOINTS}{endpoint}"
        groups = self._api.pages(
            "describe_log_groups",
            f"log group {name}",
            token="nextToken",
            items="logGroups",
            logGroupNamePrefix=name,
        )
        return name if any(group["logGroupName"] == name for group in groups) else ""

    def lines(self, group: str, *, start: str = "") -> Iterator[str]:
        for event in self._events(group, _since(start)):
            yield from _lines(event)

    def follow(self, group: str, *, start: str = "") -> Iterator[str]:
        """An empty text follows after all existing lines; the next iteration then waits a moment."""
        since, actual, clock = _since(start), dict[str, int](), self._api.clock
        while True:
            observed = clock.monotonic()
            with suppress(NotFound):  # the group comes with the first line
                for event in self._events(group, since):
                    if event["eventId"] not in actual:
                        actual[event["eventId"]] = int(event["timestamp"])
                        yield from (line or " " for line in _lines(event))
            since = max(since, max(actual.values(), default=0) - _INGESTION_DELAY)
            actual = {key: at for key, at in actual.items() if at >= since}
            yield ""
            clock.sleep(max(0.0, observed + _EVERY - clock.monotonic()))

    def remove(self, group: str) -> None:
        with suppress(NotFound):
            self._api("delete_log_group", f"log group {group}", logGroupName=group)

    def stream(self, group: str, prefix: str) -> Iterator[str]:
        """The lines of the streams whose names start with `prefix`; none if the group does not exist yet."""
        with suppress(NotFound):
            for event in self._events(group, 0, logStreamNamePrefix=prefix):
                yield from _lines(event)

    def _events(self, group: str, since: int, **more: Any) -> Iterator[dict[str, Any]]:
        try:
            yield from self._api.pages(
                "filter_log_events",
                f"log group {group}",
                token="nextToken",
                items="events",
                logGroupName=group,
                startTime=since,
                **more,
            )
        except NotFound as exc:
            raise NotFound(
                f"{group}: no such log group: no container has printed anything yet, or its role may not write logs",
                hint="wait for the first line, and check that the role has logs:CreateLogGroup, "
                "logs:CreateLogStream and logs:PutLogEvents",
            ) from exc


def _since(start: str) -> int:
    return int(datetime.fromisoformat(start).timestamp() * 1000) if start else 0


def _lines(event: dict[str, Any]) -> Iterator[str]:
    yield from str(event["message"]).splitlines() or [""]
