"""Target sagemaker: the plan of `lmi scale`, and a number of instances or copies that no `lmi up` set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.observed_state import CloudObserved
from lmi_deploy.domain.plan import Change, Plan
from lmi_deploy.domain.record import DeploymentRef, Generation, Record
from lmi_deploy.domain.sagemaker.component_actions import SetCopyCount
from lmi_deploy.domain.sagemaker.resource_settings import ObservedEndpoint
from lmi_deploy.domain.sagemaker.scaling_actions import CountChange, SetInstanceCount
from lmi_deploy.domain.sagemaker.scaling_settings import ScalableKind, Scaling, counted_units
from lmi_deploy.errors import NotFound, NotOwned, Refused, UsageRefused
from lmi_deploy.targets.sagemaker.deployed_instance import candidate_instances
from lmi_deploy.targets.sagemaker.desired_state import PROVISION
from lmi_deploy.targets.sagemaker.roles import ROLE_REMEDY

_COUNTED: Final = frozenset({"InService", "Updating", "SystemUpdating"})
"""States in which the desired number of instances is the one that was last requested."""
_ZERO_NEEDS: Final[Mapping[ScalableKind, str]] = {
    "variant": "zero instances need endpoint.asynchronous, and endpoint.autoscaling with min: 0 and "
    "backlog_per_instance",
    "component": "zero copies need endpoint.autoscaling with min: 0 and concurrent_requests_per_model, and "
    "endpoint.instance_scaling with min: 0",
}
"""As the rules of the recipe say (`validate/autoscaling.py`): else nothing starts the first one again."""
_COUNTED_COPIES: Final = frozenset({"InService"})
"""The same of an inference component: while it is updated, its settings may be the old or the new ones."""


def plan_count(observed: CloudObserved, count: int) -> tuple[Plan, CountChange]:
    """One request that replaces no instance: SageMaker starts or stops only the difference."""
    endpoint, current = _require_scalable(observed)
    kind: ScalableKind = "component" if endpoint.shared else "variant"
    _require_allowed(observed.ref, count, observed.scaling, kind)
    change = CountChange(
        types=live_types(observed),
        before=endpoint.desired_count,
        after=count,
        recorded=_recorded_count(current),
        scaling=observed.scaling,
        of=kind,
        shared=endpoint.shared,
        candidate=candidate_instances(observed),
    )
    if count > change.before and observed.weights_missing_reason:
        raise Refused(
            f"{observed.ref.name}: a new instance would fail to start: its weights in the bucket are incomplete: "
            f"{observed.weights_missing_reason}",
            hint="run `lmi up` with its recipe, which sends them again",
        )
    if count > change.before and observed.role_problem:
        raise Refused(
            f"{observed.ref.name}: a new instance would not start: {observed.role_problem}", hint=ROLE_REMEDY
        )
    timeout = current.serving.cloud.wait_timeout or 2 * PROVISION
    action: SetInstanceCount | SetCopyCount = SetInstanceCount(
        endpoint=endpoint.name, count=count, timeout=timeout
    )
    if endpoint.shared:
        action = SetCopyCount(component=endpoint.name, copies=count, timeout=timeout)
    serving = endpoint.status == "InService" and endpoint.count == endpoint.desired_count == count
    changes = count_change((), change.before, count, kind)
    return Plan(deployment=endpoint.name, actions=() if serving else (action,), changes=changes), change


def recipe_count(spec: Spec) -> int:
    return spec.cloud.component.copies if spec.cloud.component else spec.cloud.count


def _recorded_count(generation: Generation) -> int:
    component = generation.serving.cloud.component
    return component.place.copies if component else generation.serving.cloud.count


def _require_scalable(observed: CloudObserved) -> tuple[ObservedEndpoint, Generation]:
    name, endpoint, record = observed.ref.name, observed.endpoint, observed.record
    if observed.not_owned_reason:
        raise NotOwned(observed.not_owned_reason, hint="nothing was changed")
    if observed.sharing is not None:
        raise Refused(
            f"{name}: it is a shared endpoint, whose instances follow its recipes",
            hint="name one of its models, to set its copies; or change endpoint.count in its recipes and run `lmi up`: "
            "it has as many instances as the recipe that wants the most",
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
            hint=f"run `{observed.ref.command('wait')}`, then the same command again",
        )
    return endpoint, record.current


def _require_allowed(ref: DeploymentRef, count: int, scaling: Scaling | None, kind: ScalableKind) -> None:
    """Outside of the bounds the next scaling activity would undo it (Application Auto Scaling user guide, "Application
    Auto Scaling concepts", Scalable target: "the capacity is updated to comply with the set minimum and maximum").
    """
    if count < 1 and not (count == 0 and scaling is not None and scaling.least == 0):
        ends = "which ends the cost" if kind == "variant" else "which removes the model"
        raise UsageRefused(
            f"{ref.name}: {counted_units(count, kind)} cannot serve",
            hint=f"set at least 1, or run `{ref.command('down')}`, {ends}"
            + f"; {_ZERO_NEEDS[kind]}" * (count == 0),
        )
    if scaling is not None and not scaling.least <= count <= scaling.most:
        most = counted_units(scaling.most, kind)
        raise UsageRefused(
            f"{ref.name}: autoscaling keeps it at {scaling.least} to {most}, and would undo {count}",
            hint=f"change endpoint.autoscaling in the recipe and run `lmi up`, or set {scaling.least} to "
            f"{scaling.most}",
        )


def count_change(
    changes: tuple[Change, ...], before: int, after: int, kind: ScalableKind
) -> tuple[Change, ...]:
    """With the number that runs instead of the recorded one."""
    field = "copies" if kind == "component" else "count"
    others = tuple(change for change in changes if change.field != field)
    if before == after:
        return others
    return (*others, Change(field=field, before=str(before), after=str(after)))


def unrecorded_count(endpoint: ObservedEndpoint, record: Record) -> int | None:
    """The number of instances or copies, if it is not the one that the last `lmi up` set."""
    current, counted_states = record.current, _COUNTED_COPIES if endpoint.shared else _COUNTED
    if current is None or current.server != endpoint.config or endpoint.pending:
        return None
    if endpoint.status not in counted_states or current.serving.cloud.scaling is not None:
        return None
    return None if endpoint.desired_count == _recorded_count(current) else endpoint.desired_count


def count_words(observed: CloudObserved) -> str:
    """A number of instances that is not the recipe's, as a sentence; empty if it is."""
    current = observed.record.current if observed.record else None
    if observed.count_by_hand is None or current is None:
        return ""
    live, recorded, kind = (
        observed.count_by_hand,
        _recorded_count(current),
        current.serving.cloud.scalable_kind,
    )
    key = "endpoint.component.copies" if kind == "component" else "endpoint.count"
    keep = f" To keep {live}, write {key}: {live}" if live else ""
    return (
        f"it has {counted_units(live, kind)} (`lmi scale`, or another tool); the recipe of the last `lmi up` says "
        f"{recorded}, and the next one sets {recorded} again.{keep}"
    )


def live_types(observed: CloudObserved) -> tuple[str, ...]:
    """Its instance type, or those of its pools by priority: by the config or by the record. Empty if it is unknown."""
    if observed.config is not None:
        return observed.config.settings.types
    current = observed.record.current if observed.record else None
    return current.types if current else ()
