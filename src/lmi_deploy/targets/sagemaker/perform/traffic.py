"""Set the share of the requests that a candidate answers, and wait until it has it."""

from __future__ import annotations

from collections.abc import Generator

from lmi_deploy.domain.events import Event, Progress
from lmi_deploy.domain.sagemaker.resource_settings import SETTLING, ObservedEndpoint
from lmi_deploy.domain.sagemaker.scaling_actions import SetTraffic
from lmi_deploy.errors import DeployFailed, Overdue
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.cloud import Cloud
from lmi_deploy.targets.sagemaker.endpoint_waiter import poll_intervals, settled
from lmi_deploy.targets.target import Outcome


def set_traffic(action: SetTraffic, *, cloud: Cloud, clock: Clock) -> Generator[Event, None, Outcome]:
    """Once no other change is in progress. Requests nothing if the share was requested before."""
    yield from settled(action.endpoint, action, cloud=cloud, clock=clock)
    observed = _observe(action, cloud)
    if observed.status == "InService" and _percent(observed) != action.percent:
        cloud.hosting.set_traffic(action.endpoint, action.percent)
        observed = _observe(action, cloud)
    started, interval = clock.monotonic(), poll_intervals()
    while observed.status in SETTLING:
        waited = clock.monotonic() - started
        if waited > action.timeout:
            raise Overdue(
                f"{action.endpoint} after {waited / 60:.0f} min is still {observed.status}",
                hint="run the same command again to wait longer",
            )
        note = f"{observed.status}: {action.percent} % for the candidate"
        yield Progress(key=action.key, done=round(waited, 1), total=None, unit="seconds", note=note)
        clock.sleep(next(interval))
        observed = _observe(action, cloud)
    if observed.status == "InService" and _percent(observed) == action.percent:
        return f"it answers {action.percent} %"
    why = f": {observed.reason}" if observed.reason else ""
    raise DeployFailed(
        f"{action.endpoint} is {observed.status}, and its candidate answers {_percent(observed)} % of the requests, "
        f"not {action.percent} %{why}",
        hint="run `lmi status` for the reason, `lmi up` to set it again",
    )


def _observe(action: SetTraffic, cloud: Cloud) -> ObservedEndpoint:
    observed = cloud.hosting.endpoint(action.endpoint)
    if observed is None or observed.candidate is None:
        raise DeployFailed(
            f"{action.endpoint}: another process removed "
            + ("the endpoint" if observed is None else "its candidate"),
            hint="run `lmi up` to create it again",
        )
    return observed


def _percent(observed: ObservedEndpoint) -> int:
    return observed.candidate.percent if observed.candidate else 0
