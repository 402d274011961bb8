"""What a deleted deployment leaves in storage that is billed: weights, logs, captured data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from lmi_deploy.domain.default_bucket import default_bucket
from lmi_deploy.domain.observed_state import Observed
from lmi_deploy.domain.plan import Plan
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.sagemaker.actions import DeleteLogs, DeleteWeights
from lmi_deploy.domain.weights import BucketRequest
from lmi_deploy.errors import LmiError
from lmi_deploy.ports.weights import WeightsStore
from lmi_deploy.workflows.dependencies import Dependencies

_WORDS = {
    "weights": "the weights {} stay in the bucket, and cost storage",
    "incomplete-weights": "the incomplete weights {} stay in the bucket, and cost storage",
    "logs": "the log group {} stays, and costs storage",
    "captured-data": "the captured requests in {} stay, and cost storage",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RemainingStorage:
    """`command` deletes it, unless another deployment uses it; empty: lmi has none, because the data are yours."""

    kind: Literal["weights", "incomplete-weights", "logs", "captured-data"]
    name: str
    command: str

    @property
    def text(self) -> str:
        words = _WORDS[self.kind].format(self.name)
        if not self.command:
            return f"{words}; lmi never deletes them"
        unless = ", unless another deployment uses them" if self.kind == "weights" else ""
        return f"{words}; this deletes {'it' if self.kind == 'logs' else 'them'}{unless}:"


def remaining_storage(
    observed: Observed, plan: Plan, weights: tuple[str, ...], deps: Dependencies
) -> tuple[RemainingStorage, ...]:
    """Of a deployment that was `observed` with these weights before `plan` deleted it."""
    return (*_weights(observed.ref, plan, weights, deps), *_others(observed, plan))


def _weights(
    ref: DeploymentRef, plan: Plan, names: tuple[str, ...], deps: Dependencies
) -> Iterator[RemainingStorage]:
    deleted = {action.weights for action in plan.actions if isinstance(action, DeleteWeights)}
    kept = [name for name in names if name not in deleted]
    if not kept:
        return
    own = ref.bucket in ("", default_bucket(ref.account, ref.region))
    where = f" --region {ref.region}" if own else f" --region {ref.region} --bucket {ref.bucket}"
    try:
        store = deps.weights(BucketRequest(bucket=ref.bucket, region=ref.region), None)
    except LmiError:
        return  # without its bucket there are none
    for name in kept:
        state = _state(name, store)
        if state == "complete":
            yield RemainingStorage(kind="weights", name=name, command=f"lmi weights rm {name}{where}")
        elif state == "incomplete":
            command = f"lmi gc --no-deployments --older-than 0{where}"
            yield RemainingStorage(kind="incomplete-weights", name=name, command=command)


def _state(name: str, store: WeightsStore) -> Literal["complete", "incomplete", "absent"]:
    try:
        if store.flaws(name) is not None:
            return "complete"
        return "incomplete" if store.exists(name) else "absent"
    except LmiError:
        # The deployment is deleted: a refused look-up must not fail the command. Its record named these weights.
        return "complete"


def _others(observed: Observed, plan: Plan) -> Iterator[RemainingStorage]:
    if observed.log_group and not plan.has_action(DeleteLogs):
        command = f"{observed.ref.command('down')} --logs"
        yield RemainingStorage(kind="logs", name=observed.log_group, command=command)
    if observed.captured:
        yield RemainingStorage(kind="captured-data", name=observed.captured, command="")
