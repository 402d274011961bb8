"""Waiting for an endpoint: what is happening now, what its containers print, and how it ended."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from itertools import chain, repeat
from statistics import median
from typing import Final

from lmi_deploy.domain.currency import money
from lmi_deploy.domain.events import Event, Line, Notice, Progress
from lmi_deploy.domain.plan import Action, key
from lmi_deploy.domain.sagemaker.actions import AwaitService, DeleteEndpoint, UpdateEndpoint
from lmi_deploy.domain.sagemaker.settings import SETTLING, SeenEndpoint
from lmi_deploy.errors import AccessError, CloudError, Conflict, DeployFailed, LmiError, NoCapacity, Overdue
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.cloud import Cloud, Depot
from lmi_deploy.targets.sagemaker.propagation import Propagation
from lmi_deploy.targets.target import Outcome

Steps = Generator[Event, None, Outcome]
_PACE: Final = (1.0, 2.0, 3.0, 5.0, 8.0)
_STEADY: Final = 10.0
_KEPT_LINES: Final = 60
_SILENT_AFTER: Final = 300.0
"""Seconds without a log after which it is said why there may be none."""
_GONE_AFTER: Final = 5400.0
"""Seconds for an endpoint to settle, and then to go."""
_NO_CAPACITY = re.compile(
    r"InsufficientInstanceCapacity|CapacityError|insufficient (instance )?capacity|"
    r"Unable to provision requested ML compute capacity",
    re.IGNORECASE,
)
_SERVING = ("InService", "SystemUpdating")


def paces() -> Iterator[float]:
    """Seconds between two looks."""
    return chain(_PACE, repeat(_STEADY))


@dataclass(slots=True)
class Printed:
    """What the containers of an endpoint print, from `start` on, as it comes."""

    cloud: Cloud
    endpoint: str
    key: str
    start: str
    last: deque[str] = field(default_factory=lambda: deque(maxlen=_KEPT_LINES))
    _lines: Iterator[str] | None = None
    _denied: bool = False

    def news(self) -> Iterator[Event]:
        """Everything that has come since the last time."""
        if self._denied:
            return
        try:
            yield from self._news()
        except AccessError as error:
            self._denied = True
            yield Notice(text=f"its log is not shown: {error.message}")

    def _news(self) -> Iterator[Event]:
        if self._lines is None:
            group = self.cloud.logs.group(self.endpoint)
            if not group:
                return
            self._lines = self.cloud.logs.follow(group, start=self.start)
        for line in self._lines:
            if not line:
                return
            self.last.append(line)
            yield Line(key=self.key, text=line)


@dataclass(slots=True, kw_only=True)
class Waiting:
    """One endpoint followed until it has settled."""

    cloud: Cloud
    depot: Depot | None
    clock: Clock
    action: AwaitService
    _told: set[str] = field(default_factory=set)

    def run(self) -> Steps:
        seen = self._look()
        printed = Printed(self.cloud, seen.name, key(self.action), self._since(seen))
        usual = usual_seconds(self.depot, self._instance())
        begun, pace = self.clock.monotonic(), paces()
        while seen.status in SETTLING and seen.status != "SystemUpdating":
            yield from printed.news()
            waited = self.clock.monotonic() - begun
            if waited > self.action.timeout:
                raise self._overdue(seen, printed, waited)
            yield from self._notices(seen, printed, waited)
            note = self._note(seen, printed, usual)
            yield Progress(key=key(self.action), done=round(waited, 1), total=None, unit="seconds", note=note)
            self.clock.sleep(next(pace))
            seen = self._look()
        yield from printed.news()
        return self._verdict(seen, printed)

    def _look(self) -> SeenEndpoint:
        seen = self.cloud.hosting.endpoint(self.action.endpoint)
        if seen is None:
            raise DeployFailed(
                f"{self.action.endpoint}: the endpoint was deleted meanwhile, by somebody else",
                hint="`lmi up` makes it anew",
            )
        return seen

    def _since(self, seen: SeenEndpoint) -> str:
        """From when on the log tells of this change."""
        if seen.status in ("Creating", "Failed"):
            return seen.created
        if seen.status == "Updating" or seen.config == self.action.config:
            return seen.modified
        # One that was rolled back was last modified by its end, after all its lines: the record knows when it began.
        record = self.depot.records.read(seen.name) if self.depot else None
        return (record.coming.since if record and record.coming else "") or seen.modified

    def _instance(self) -> str:
        found = self.cloud.hosting.endpoint_config(self.action.config)
        return found.settings.instance if found else ""

    def _note(self, seen: SeenEndpoint, printed: Printed, usual: int) -> str:
        phase = "its container runs" if printed.last else "an instance is provided, the image pulled"
        if seen.status == "RollingBack":
            phase = f"back to {seen.config}"
        count = f", {seen.count} of {seen.wanted_count} instances" if seen.wanted_count > 1 else ""
        return f"{seen.status}: {phase}{count}" + (f"; usually {_minutes(usual)}" if usual else "")

    def _notices(self, seen: SeenEndpoint, printed: Printed, waited: float) -> Iterator[Event]:
        if seen.status == "RollingBack":
            why = f": {seen.reason}" if seen.reason else ""
            yield from self._once(f"the update failed{why}; SageMaker goes back to {seen.config}")
        if waited > _SILENT_AFTER and not printed.last and seen.status != "RollingBack":
            yield from self._once(
                f"no log yet after {_minutes(waited)}: nothing is printed before the instance is there, the image "
                "pulled and the model's files laid out; an image that needs a newer driver prints nothing at all"
            )

    def _once(self, text: str) -> Iterator[Event]:
        kind = text[:20]
        if kind not in self._told:
            self._told.add(kind)
            yield Notice(text=text)

    def _overdue(self, seen: SeenEndpoint, printed: Printed, waited: float) -> Overdue:
        return Overdue(
            f"{seen.name} is still {seen.status} after {_minutes(waited)}{costs(self.cloud, seen, self._instance())}",
            hint=f"`lmi wait {seen.name}` goes on waiting, `lmi down {seen.name}` ends it once it has settled",
            details=tuple(printed.last),
        )

    def _verdict(self, seen: SeenEndpoint, printed: Printed) -> Outcome:
        if seen.status in _SERVING and seen.config == self.action.config:
            return f"{seen.config} serves"
        lines = tuple(printed.last) or ("(its containers printed nothing that CloudWatch has)",)
        details = (*lines, *((f"FailureReason: {seen.reason}",) if seen.reason else ()))
        kind = NoCapacity if _NO_CAPACITY.search(seen.reason) else DeployFailed
        why = f": {seen.reason}" if seen.reason else ""
        if seen.status in _SERVING:
            raise kind(
                f"{seen.name}: the update to {self.action.config} was rolled back; {seen.config} serves{why}",
                hint=f"the container's last lines are above; `lmi logs {seen.name}` has all of them",
                details=details,
            )
        raise kind(
            f"{seen.name}: the endpoint is {seen.status}{why}",
            hint="the container's last lines are above; `lmi up` makes it anew, `lmi down` clears it away",
            details=details,
        )


def settled(endpoint: str, action: Action, *, cloud: Cloud, clock: Clock) -> Steps:
    """Wait until nothing is under way on it, which somebody else began."""
    begun, pace = clock.monotonic(), paces()
    told = False
    while (seen := cloud.hosting.endpoint(endpoint)) is not None and seen.status in SETTLING:
        if not told:
            yield Notice(text=f"{endpoint} is {seen.status}: it is waited for first")
            told = True
        waited = clock.monotonic() - begun
        _require_time(endpoint, seen, waited)
        yield Progress(key=key(action), done=round(waited, 1), total=None, unit="seconds", note=seen.status)
        clock.sleep(next(pace))
    return seen.status if seen else ""


def update(action: UpdateEndpoint, propagation: Propagation) -> Steps:
    """One UpdateEndpoint, once nothing else is under way."""
    cloud, clock = propagation.cloud, propagation.clock
    seen = cloud.hosting.endpoint(action.endpoint)
    if seen is not None and action.config == seen.pending:
        return "begun before"
    status = yield from settled(action.endpoint, action, cloud=cloud, clock=clock)
    if status not in (*_SERVING, "UpdateRollbackFailed", "OutOfService"):
        raise DeployFailed(
            f"{action.endpoint}: the endpoint is {status or 'gone'} and cannot be updated",
            hint="`lmi up` makes it anew",
        )
    yield from propagation.until_found(
        "endpoint-config",
        action.config,
        lambda: cloud.hosting.update_endpoint(action.endpoint, action.config, keep_count=action.keep_count),
        key=key(action),
    )
    return "begun"


def delete(action: DeleteEndpoint, *, cloud: Cloud, clock: Clock) -> Steps:
    """Deleted and seen gone. While it is created SageMaker deletes nothing: that is waited for."""
    begun, pace, asked = clock.monotonic(), paces(), False
    while (seen := cloud.hosting.endpoint(action.endpoint)) is not None:
        waited = clock.monotonic() - begun
        _require_time(action.endpoint, seen, waited)
        if not asked and seen.status != "Deleting":
            asked = _asked_to_go(seen, cloud)
        note = "Deleting" if asked else f"{seen.status}: it can be deleted once that has ended"
        yield Progress(key=key(action), done=round(waited, 1), total=None, unit="seconds", note=note)
        clock.sleep(next(pace))
    return "gone"


def _asked_to_go(seen: SeenEndpoint, cloud: Cloud) -> bool:
    try:
        cloud.hosting.delete_endpoint(seen.name)
    except (CloudError, Conflict):
        if seen.status not in SETTLING:
            raise
        return False
    return True


def _require_time(endpoint: str, seen: SeenEndpoint, waited: float) -> None:
    if waited > _GONE_AFTER:
        raise Overdue(
            f"{endpoint} is still {seen.status} after {_minutes(waited)}",
            hint="run the same command again; where it stays so, AWS support can end it",
        )


def usual_seconds(depot: Depot | None, instance: str) -> int:
    """Median of the runs on such an instance that the bucket's records know; 0 where there are none."""
    if depot is None or not instance:
        return 0
    records = (depot.records.read(name) for name in depot.records.names()[:_KEPT_LINES])
    runs = [g.took for record in records if record for g in record.generations if g.instance == instance]
    known = [took for took in runs if took]
    return round(median(known)) if known else 0


def costs(cloud: Cloud, seen: SeenEndpoint, instance: str) -> str:
    """What goes on costing, for the end of a sentence; empty where nobody can tell."""
    try:
        price = cloud.prices.hourly(instance) if instance else None
    except LmiError:
        return ""
    if price is None:
        return ""
    count = max(seen.count, seen.wanted_count, 1)
    return (
        f", and goes on costing {money(count * price.hourly, price.currency)} an hour ({count} x {instance})"
    )


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
