"""Wait for an endpoint: show its state, its containers' output, and the result."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, repeat
from statistics import median
from typing import Final

from lmi_deploy.domain.currency import format_price
from lmi_deploy.domain.events import Event, Line, Notice, Progress
from lmi_deploy.domain.plan import Action
from lmi_deploy.domain.record import command_for
from lmi_deploy.domain.sagemaker.actions import AwaitService, DeleteEndpoint, UpdateEndpoint
from lmi_deploy.domain.sagemaker.resource_settings import SETTLING, ObservedEndpoint
from lmi_deploy.errors import (
    AccessError,
    CloudError,
    Conflict,
    DeployFailed,
    LmiError,
    NoCapacity,
    Overdue,
    Refused,
)
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.cloud import BucketServices, Cloud
from lmi_deploy.targets.sagemaker.eventual_consistency import Propagation
from lmi_deploy.targets.target import Outcome

Steps = Generator[Event, None, Outcome]
_PACE: Final = (1.0, 2.0, 3.0, 5.0, 8.0)
_STEADY: Final = 10.0
_MAX_LINES: Final = 60
_SILENT_AFTER: Final = 300.0
"""Seconds without a log after which the possible reason is shown."""
_LOST_AFTER: Final = 5400.0
"""Seconds for an endpoint to settle, and then to go."""
NO_CAPACITY = re.compile(
    r"InsufficientInstanceCapacity|CapacityError|insufficient (instance )?capacity|"
    r"Unable to provision requested ML compute capacity",
    re.IGNORECASE,
)
_SERVING = ("InService", "SystemUpdating")


def poll_intervals() -> Iterator[float]:
    """Seconds between two looks."""
    return chain(_PACE, repeat(_STEADY))


@dataclass(slots=True)
class LogFollower:
    """Follows the containers' output of an endpoint from `start` on."""

    cloud: Cloud
    endpoint: str
    key: str
    start: str
    component: bool = False
    last: deque[str] = field(default_factory=lambda: deque(maxlen=_MAX_LINES))
    _lines: Iterator[str] | None = None
    _denied: bool = False

    def new_lines(self) -> Iterator[Event]:
        """All lines since the last call."""
        if self._denied:
            return
        try:
            yield from self._new_lines()
        except AccessError as error:
            self._denied = True
            yield Notice(text=f"its log cannot be shown: {error.message}")

    def _new_lines(self) -> Iterator[Event]:
        if self._lines is None:
            group = self.cloud.logs.group(self.endpoint, component=self.component)
            if not group:
                return
            self._lines = self.cloud.logs.follow(group, start=self.start)
        for line in self._lines:
            if not line:
                return
            self.last.append(line)
            yield Line(key=self.key, text=line)


def overdue_hint(name: str, region: str) -> str:
    wait, down = (command_for(verb, name, region) for verb in ("wait", "down"))
    return f"run `{wait}` to keep waiting, or `{down}` to delete it when its status is final"


@dataclass(slots=True, kw_only=True)
class EndpointWaiter:
    """One endpoint followed until it has settled."""

    cloud: Cloud
    depot: BucketServices | None
    clock: Clock
    action: AwaitService
    _reported: set[str] = field(default_factory=set)

    def run(self) -> Steps:
        observed = self._observe()
        printed = LogFollower(self.cloud, observed.name, self.action.key, self._since(observed))
        usual = usual_seconds(self.depot, self._instance())
        started, interval = self.clock.monotonic(), poll_intervals()
        while observed.status in SETTLING and observed.status != "SystemUpdating":
            yield from printed.new_lines()
            waited = self.clock.monotonic() - started
            if waited > self.action.timeout:
                raise self._overdue(observed, printed, waited)
            yield from self._notices(observed, printed, waited)
            note = self._note(observed, printed, usual)
            yield Progress(key=self.action.key, done=round(waited, 1), total=None, unit="seconds", note=note)
            self.clock.sleep(next(interval))
            observed = self._observe()
        yield from printed.new_lines()
        return self._verdict(observed, printed)

    def _observe(self) -> ObservedEndpoint:
        observed = self.cloud.hosting.endpoint(self.action.endpoint)
        if observed is None:
            raise DeployFailed(
                f"{self.action.endpoint}: another process deleted the endpoint",
                hint="run `lmi up` to create it again",
            )
        return observed

    def _since(self, observed: ObservedEndpoint) -> str:
        """The time from which on the log is about this change."""
        if observed.status in ("Creating", "Failed"):
            return observed.created
        if observed.status == "Updating" or observed.config == self.action.config:
            return observed.modified
        # One that was rolled back was last modified by its end, after all its lines: the record knows when it began.
        record = self.depot.records.read(observed.name) if self.depot else None
        return (record.coming.since if record and record.coming else "") or observed.modified

    def _instance(self) -> str:
        found = self.cloud.hosting.endpoint_config(self.action.config)
        return found.settings.instance if found else ""

    def _note(self, observed: ObservedEndpoint, printed: LogFollower, usual: int) -> str:
        phase = "its container is starting" if printed.last else "provisioning an instance, pulling the image"
        if observed.status == "RollingBack":
            phase = f"rolling back to {observed.config}"
        count = (
            f", {observed.count} of {observed.desired_count} instances" if observed.desired_count > 1 else ""
        )
        return f"{observed.status}: {phase}{count}" + (f"; usually {_minutes(usual)}" if usual else "")

    def _notices(self, observed: ObservedEndpoint, printed: LogFollower, waited: float) -> Iterator[Event]:
        if observed.status == "RollingBack":
            why = f": {observed.reason}" if observed.reason else ""
            yield from self._once(f"the update failed{why}; SageMaker rolls back to {observed.config}")
        if waited > _SILENT_AFTER and not printed.last and observed.status != "RollingBack":
            yield from self._once(
                f"no log yet after {_minutes(waited)}: a container prints nothing until the instance is "
                "provisioned, the image pulled and the model files in place; an image that needs a newer driver "
                "never prints anything"
            )

    def _once(self, text: str) -> Iterator[Event]:
        kind = text[:20]
        if kind not in self._reported:
            self._reported.add(kind)
            yield Notice(text=text)

    def _overdue(self, observed: ObservedEndpoint, printed: LogFollower, waited: float) -> Overdue:
        return Overdue(
            f"{observed.name} is still {observed.status} after "
            f"{_minutes(waited)}{costs(self.cloud, observed, self._instance())}",
            hint=overdue_hint(observed.name, self.cloud.caller.region),
            details=tuple(printed.last),
        )

    def _verdict(self, observed: ObservedEndpoint, printed: LogFollower) -> Outcome:
        if observed.status in _SERVING and observed.config == self.action.config:
            types = " and ".join(f"{count} x {name}" for name, count in observed.running_types)
            return f"{observed.config} serves" + f" on {types}" * bool(types)
        lines = tuple(printed.last) or ("(no output of its containers in CloudWatch)",)
        details = (*lines, *((f"FailureReason: {observed.reason}",) if observed.reason else ()))
        kind = NoCapacity if NO_CAPACITY.search(observed.reason) else DeployFailed
        why = f": {observed.reason}" if observed.reason else ""
        region = self.cloud.caller.region
        if observed.status in _SERVING:
            logs = command_for("logs", observed.name, region)
            raise kind(
                f"{observed.name}: the update to {self.action.config} was rolled back; {observed.config} serves{why}",
                hint=f"read the container's last lines above; `{logs}` shows the whole log",
                details=details,
            )
        raise kind(
            f"{observed.name}: the endpoint is {observed.status}{why}",
            hint="read the container's last lines above, then run `lmi up` to create it again or "
            f"`{command_for('down', observed.name, region)}` to delete it",
            details=details,
        )


def settled(endpoint: str, action: Action, *, cloud: Cloud, clock: Clock) -> Steps:
    """Wait until a change of the endpoint that another process started is complete."""
    started, interval = clock.monotonic(), poll_intervals()
    reported = False
    while (observed := cloud.hosting.endpoint(endpoint)) is not None and observed.status in SETTLING:
        if not reported:
            yield Notice(text=f"{endpoint} is {observed.status}: lmi waits until that has ended")
            reported = True
        waited = clock.monotonic() - started
        _require_time(endpoint, observed, waited)
        yield Progress(
            key=action.key, done=round(waited, 1), total=None, unit="seconds", note=observed.status
        )
        clock.sleep(next(interval))
    return observed.status if observed else ""


def update(action: UpdateEndpoint, propagation: Propagation) -> Steps:
    """One UpdateEndpoint, once no other change is in progress."""
    cloud, clock = propagation.cloud, propagation.clock
    observed = cloud.hosting.endpoint(action.endpoint)
    if observed is not None and action.config == observed.pending:
        return "started before"
    status = yield from settled(action.endpoint, action, cloud=cloud, clock=clock)
    if status not in (*_SERVING, "UpdateRollbackFailed", "OutOfService"):
        raise DeployFailed(
            f"{action.endpoint}: the endpoint is {status or 'deleted'} and cannot be updated",
            hint="run `lmi up` to create it again",
        )
    yield from propagation.until_found(
        "endpoint-config",
        action.config,
        lambda: cloud.hosting.update_endpoint(
            action.endpoint, action.config, keep_count=action.keep_count, policy=action.policy
        ),
        key=action.key,
    )
    return "started"


def delete(action: DeleteEndpoint, *, cloud: Cloud, clock: Clock) -> Steps:
    """Delete it and wait until it is gone. SageMaker cannot delete an endpoint that is being created: wait for that
    first.
    """
    started, interval, requested = clock.monotonic(), poll_intervals(), False
    while (observed := cloud.hosting.endpoint(action.endpoint)) is not None:
        waited = clock.monotonic() - started
        _require_time(action.endpoint, observed, waited)
        if not requested and observed.status != "Deleting":
            requested = _request_deletion(observed, cloud)
        note = "Deleting" if requested else f"{observed.status}: SageMaker allows the deletion after that"
        yield Progress(key=action.key, done=round(waited, 1), total=None, unit="seconds", note=note)
        clock.sleep(next(interval))
    return "gone"


def _request_deletion(observed: ObservedEndpoint, cloud: Cloud) -> bool:
    try:
        cloud.hosting.delete_endpoint(observed.name)
    except (CloudError, Conflict):
        if observed.status not in SETTLING:
            raise
        return False
    return True


def _require_time(endpoint: str, observed: ObservedEndpoint, waited: float) -> None:
    if waited > _LOST_AFTER:
        raise Overdue(
            f"{endpoint} is still {observed.status} after {_minutes(waited)}",
            hint="run the same command again; if it stays in this state, contact AWS support",
        )


def usual_seconds(bucket_services: BucketServices | None, instance: str) -> int:
    """Median of the recorded runs on such an instance in the bucket; 0 if there are none."""
    if bucket_services is None or not instance:
        return 0
    runs: list[int] = []
    for name in bucket_services.records.names()[:_MAX_LINES]:
        with suppress(Refused):  # written by a newer lmi
            record = bucket_services.records.read(name)
            runs += (
                [g.took for g in record.generations if g.took and g.instance == instance] if record else []
            )
    return round(median(runs)) if runs else 0


def costs(cloud: Cloud, observed: ObservedEndpoint, instance: str) -> str:
    """What continues to cost, as the end of a sentence; empty if it is unknown."""
    try:
        price = cloud.prices.hourly(instance) if instance else None
    except LmiError:
        return ""
    if price is None:
        return ""
    count = max(observed.count, observed.desired_count, 1)
    return f", and still costs {format_price(count * price.hourly, price.currency)} an hour ({count} x {instance})"


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
