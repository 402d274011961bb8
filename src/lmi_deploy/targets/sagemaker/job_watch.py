"""Wait for a job of SageMaker to end, with its lines as they come, and stop one."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from lmi_deploy.domain.events import Event, Line, Progress
from lmi_deploy.domain.sagemaker.transfer_job import ObservedJob
from lmi_deploy.errors import AccessError, NotFound, Overdue
from lmi_deploy.ports.clock import Clock

GRACE: Final = 1800
"""Seconds beyond the job's own limit, for its machines to start and stop."""


class WatchedJobs(Protocol):
    """The part of the ports Jobs and ModelOptimizations that both have."""

    def job(self, name: str) -> ObservedJob | None: ...

    def stop(self, name: str) -> None: ...

    def lines(self, name: str) -> Iterator[str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWatch:
    """`key` names the action in events; `timeout` is the job's own limit in seconds."""

    jobs: WatchedJobs
    clock: Clock
    poll_intervals: Callable[[], Iterator[float]]
    """Seconds between two looks."""
    job: str
    key: str

    def until_ended(self, timeout: int, *, hint: str) -> Generator[Event, None, ObservedJob]:
        """Overdue, with the hint, if it does not end in time."""
        started, reported = self.clock.monotonic(), 0
        for wait in self.poll_intervals():
            observed = self.jobs.job(self.job)
            if observed is None:
                raise NotFound(f"{self.job}: the job does not exist", hint="run the same command again")
            lines = self.printed()
            for line in lines[reported:]:
                yield Line(key=self.key, text=line)
            reported = max(reported, len(lines))
            if not observed.is_running:
                return observed
            waited = self.clock.monotonic() - started
            if waited > timeout + GRACE:
                break
            yield Progress(
                key=self.key, done=round(waited, 1), total=None, unit="seconds", note=observed.status
            )
            self.clock.sleep(wait)
        raise Overdue(f"{self.job}: still running after {timeout + GRACE} s", hint=hint)

    def printed(self) -> list[str]:
        """The job's lines so far; the reason in their place if they may not be read. The job goes on."""
        try:
            return list(self.jobs.lines(self.job))
        except AccessError as denied:
            return [f"the job's log cannot be read: {denied.message}"]

    def stop(self) -> Generator[Event, None, None]:
        """Until it has stopped: until then it costs money."""
        started = self.clock.monotonic()
        self.jobs.stop(self.job)
        for wait in self.poll_intervals():
            observed = self.jobs.job(self.job)
            if observed is None or not observed.is_running:
                return
            waited = self.clock.monotonic() - started
            if waited > GRACE:
                break
            yield Progress(
                key=self.key, done=round(waited, 1), total=None, unit="seconds", note=observed.status
            )
            self.clock.sleep(wait)
        raise Overdue(f"{self.job}: still not ended after {GRACE} s", hint="run the same command again")
