"""Target sagemaker: the plan of `lmi scale`, and a number of instances that no `lmi up` set."""

from __future__ import annotations

from typing import Final

from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.observed_state import CloudObserved
from lmi_deploy.domain.plan import Change, Plan
from lmi_deploy.domain.record import Generation, Record
from lmi_deploy.domain.sagemaker.resource_settings import ObservedEndpoint
from lmi_deploy.domain.sagemaker.scaling_actions import CountChange, SetInstanceCount
from lmi_deploy.domain.sagemaker.scaling_settings import Scaling
from lmi_deploy.errors import NotFound, Refused, UsageRefused
from lmi_deploy.targets.sagemaker.desired_state import PROVISION

_FIELD: Final = "count"
_COUNTED: Final = frozenset({"InService", "Updating", "SystemUpdating"})
"""States in which the desired number of instances is the one that was last requested."""


def plan_count(observed: CloudObserved, count: int) -> tuple[Plan, CountChange]:
    """One request that replaces no instance: SageMaker starts or stops only the difference."""
    endpoint, current = _require_scalable(observed)
    _require_allowed(observed.ref.name, count, observed.scaling)
    change = CountChange(
        instance=live_instance(observed),
        before=endpoint.desired_count,
        after=count,
        recorded=current.serving.cloud.count,
        scaling=observed.scaling,
    )
    timeout = current.serving.cloud.wait_timeout or 2 * PROVISION
    action = SetInstanceCount(endpoint=endpoint.name, count=count, timeout=timeout)
    serving = endpoint.status == "InService" and endpoint.count == endpoint.desired_count == count
    changes = count_change((), change.before, count)
    return Plan(deployment=endpoint.name, actions=() if serving else (action,), changes=changes), change


def _require_scalable(observed: CloudObserved) -> tuple[ObservedEndpoint, Generation]:
    name, endpoint, record = observed.ref.name, observed.endpoint, observed.record
    if observed.not_owned_reason:
        raise Refused(observed.not_owned_reason, hint="nothing was changed")
    if observed.sharing is not None or (endpoint is not None and endpoint.shared):
        raise Refused(
            f"{name}: lmi scale sets the instances of an endpoint with one deployment, and this one is shared",
            hint="change endpoint.component.copies or endpoint.count in the recipe, and run `lmi up`",
        )
    if endpoint is None:
        raise NotFound(f"{name}: no endpoint in {observed.ref.place}", hint="run `lmi up` to create it")
    if record is None or record.current is None or record.coming is not None:
        raise Refused(f"{name}: its `lmi up` did not finish", hint="run `lmi up` first, which continues it")
    if scaled := record.current.serving.cloud.variant_scaling:
        raise Refused(
            f"{name}: another tool scales its variant {endpoint.variant} ({scaled}), and would undo it",
            hint="change that scaling where it was made, or run `lmi up`, which replaces it by endpoint.autoscaling",
        )
    if observed.missing:
        parts = " and ".join(f"{kind.replace('-', ' ')} {lost}" for kind, lost in observed.missing)
        raise Refused(
            f"{name}: SageMaker cannot scale it: its {parts} no longer exists",
            hint="run `lmi up` with the deployed recipe, which creates what is missing",
        )
    if endpoint.status not in _COUNTED or endpoint.pending:
        raise Refused(
            f"{name}: its endpoint is {endpoint.status} and cannot be scaled now",
            hint=f"run `lmi wait {name}`, then the same command again",
        )
    return endpoint, record.current


def _require_allowed(name: str, count: int, scaling: Scaling | None) -> None:
    """Outside of the bounds the next scaling activity would undo it (Application Auto Scaling user guide, "Application
    Auto Scaling concepts", Scalable target: "the capacity is updated to comply with the set minimum and maximum").
    """
    if count < 1 and not (count == 0 and scaling is not None and scaling.least == 0):
        raise UsageRefused(
            f"{name}: {count} instances cannot serve",
            hint=f"set at least 1, or run `lmi down {name}`, which ends the cost",
        )
    if scaling is not None and not scaling.least <= count <= scaling.most:
        raise UsageRefused(
            f"{name}: autoscaling keeps it at {scaling.least} to {scaling.most} instances, and would undo {count}",
            hint=f"change endpoint.autoscaling in the recipe and run `lmi up`, or set {scaling.least} to "
            f"{scaling.most}",
        )


def count_change(changes: tuple[Change, ...], before: int, after: int) -> tuple[Change, ...]:
    """With the number that runs instead of the recorded one."""
    others = tuple(change for change in changes if change.field != _FIELD)
    if before == after:
        return others
    return (*others, Change(field=_FIELD, before=str(before), after=str(after)))


def unrecorded_count(endpoint: ObservedEndpoint, record: Record) -> int:
    """The number of instances, if it is not the one that the last `lmi up` set; else 0."""
    current = record.current
    if current is None or current.server != endpoint.config or endpoint.pending:
        return 0
    serving = current.serving.cloud
    if (
        endpoint.status not in _COUNTED
        or serving.scaling is not None
        or endpoint.desired_count == serving.count
    ):
        return 0
    return endpoint.desired_count


def count_words(observed: CloudObserved) -> str:
    """A number of instances that is not the recipe's, as a sentence; empty if it is."""
    current = observed.record.current if observed.record else None
    if not observed.count_by_hand or current is None:
        return ""
    live, recorded = observed.count_by_hand, current.serving.cloud.count
    return (
        f"it has {counted(live, 'instance')} (`lmi scale`, or another tool); the recipe of the last `lmi up` says "
        f"{recorded}, and the next one sets {recorded} again. To keep {live}, write endpoint.count: {live}"
    )


def live_instance(observed: CloudObserved) -> str:
    """Its instance type, by the config or by the record; empty if it is unknown."""
    if observed.config is not None:
        return observed.config.settings.instance
    current = observed.record.current if observed.record else None
    return current.instance if current else ""
