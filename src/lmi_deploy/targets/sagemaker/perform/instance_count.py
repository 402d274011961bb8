"""Set the number of instances of an endpoint, and wait until so many serve."""

from __future__ import annotations

from collections.abc import Generator

from lmi_deploy.domain.events import Event, Progress
from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.record import command_for
from lmi_deploy.domain.sagemaker.resource_settings import SETTLING, ObservedEndpoint
from lmi_deploy.domain.sagemaker.scaling_actions import SetInstanceCount
from lmi_deploy.errors import DeployFailed, NoCapacity, Overdue
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.cloud import Cloud
from lmi_deploy.targets.sagemaker.endpoint_waiter import NO_CAPACITY, poll_intervals, settled
from lmi_deploy.targets.sagemaker.eventual_consistency import arn_region
from lmi_deploy.targets.target import Outcome


def set_instance_count(
    action: SetInstanceCount, *, cloud: Cloud, clock: Clock
) -> Generator[Event, None, Outcome]:
    """Once no other change is in progress. Requests nothing if the number was requested before."""
    yield from settled(action.endpoint, action, cloud=cloud, clock=clock)
    observed = _observe(action, cloud)
    if observed.status == "InService" and observed.desired_count != action.count:
        cloud.hosting.set_instance_count(action.endpoint, action.count, observed.variant)
        observed = _observe(action, cloud)
    started, interval = clock.monotonic(), poll_intervals()
    while _is_in_progress(observed, action):
        waited = clock.monotonic() - started
        note = f"{observed.status}: {counted(observed.count, 'instance')}, {action.count} requested"
        if waited > action.timeout:
            raise Overdue(
                f"{action.endpoint} after {waited / 60:.0f} min is still {note}",
                hint="run the same command again to wait longer; every started instance costs money",
            )
        yield Progress(key=action.key, done=round(waited, 1), total=None, unit="seconds", note=note)
        clock.sleep(next(interval))
        observed = _observe(action, cloud)
    return _verdict(observed, action)


def changed_meanwhile(name: str, region: str, wanted: str, serve: str) -> DeployFailed:
    """SageMaker gives a reason if it cannot change the number."""
    return DeployFailed(
        f"{name}: it was to get {wanted}, but something else changed the number while lmi waited: {serve}",
        hint=f"autoscaling may have done so: `{command_for('status', name, region)}` shows its bounds; "
        "to get that number, run the same command again",
    )


def _observe(action: SetInstanceCount, cloud: Cloud) -> ObservedEndpoint:
    observed = cloud.hosting.endpoint(action.endpoint)
    if observed is None:
        raise DeployFailed(
            f"{action.endpoint}: another process deleted the endpoint", hint="run `lmi up` to create it again"
        )
    return observed


def _is_in_progress(observed: ObservedEndpoint, action: SetInstanceCount) -> bool:
    started = observed.status == "InService" and observed.desired_count == action.count
    return observed.status in SETTLING or (started and observed.count != action.count)


def _verdict(observed: ObservedEndpoint, action: SetInstanceCount) -> Outcome:
    """SageMaker rolls a change back that fails, and the endpoint is in service as before (DescribeEndpoint,
    EndpointStatus, RollingBack).
    """
    serve = f"{counted(observed.count, 'instance')} {'serves' if observed.count == 1 else 'serve'}"
    if observed.status == "InService" and observed.count == action.count:
        return serve
    if observed.status == "InService" and not observed.reason and observed.desired_count == observed.count:
        raise changed_meanwhile(
            action.endpoint, arn_region(observed.arn), counted(action.count, "instance"), serve
        )
    kind = NoCapacity if NO_CAPACITY.search(observed.reason) else DeployFailed
    why = f": {observed.reason}" if observed.reason else ""
    if observed.status == "InService":
        raise kind(
            f"{action.endpoint}: it did not get {counted(action.count, 'instance')}; {serve} as before{why}",
            hint="run the same command later, or ask for fewer instances",
        )
    raise kind(
        f"{action.endpoint}: the endpoint is {observed.status} and cannot be scaled{why}",
        hint="run `lmi status` for the reason, `lmi up` to repair it",
    )
