"""The cost while an update runs: until the old instances end, both fleets are billed.

SageMaker starts all new instances before it ends an old one, whichever way requests move; with policy `rolling` only
those of a step (developer guide, "Blue/Green Deployments", "Rolling deployments").
"""

from __future__ import annotations

import math
from typing import Final

from lmi_deploy.catalog.instances import instance
from lmi_deploy.domain.currency import format_price
from lmi_deploy.domain.dearest_type import dearest_type
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.number_text import seconds_text
from lmi_deploy.domain.observed_state import CloudInventory, CloudObserved
from lmi_deploy.domain.plan import Plan
from lmi_deploy.domain.recipe_endpoint_keys import UpdatePolicy
from lmi_deploy.domain.sagemaker.actions import UpdateEndpoint
from lmi_deploy.planning.default_timeouts import careful_start, whole_minutes
from lmi_deploy.targets.sagemaker.deployed_instance import running_instances
from lmi_deploy.targets.sagemaker.desired_state import update_seconds

_PROVIDED: Final = 300
"""Seconds, assumed, until an instance is there and has pulled its image of some gigabytes."""


def during_update(spec: Spec, plan: Plan, observed: CloudObserved, inventory: CloudInventory) -> str:
    """In words; empty of a plan that replaces no instance."""
    update = next((action for action in plan.actions if isinstance(action, UpdateEndpoint)), None)
    running = running_instances(observed)
    if update is None or not any(count for _, count in running):
        return ""
    policy, prices = update.policy or UpdatePolicy(), inventory.prices
    placement = inventory.choose(spec.cloud.placements)
    name, _ = dearest_type(placement.types, prices.get)
    new = [(name, running[0][1] if update.keep_count else spec.cloud.count)]
    if spec.candidate is not None:
        second = spec.candidate.spec.cloud
        new.append((second.placements[0].instance, second.count))
    share = (policy.step_percent or 100) / 100 if policy.policy == "rolling" else 1.0
    start = _PROVIDED + max(
        careful_start(instance(name), spec.weights.total_size) for name in placement.types
    )
    span = f"about {seconds_text(whole_minutes(update_seconds(policy, start)))}"
    both = (
        "old and new instances run"
        if share == 1
        else f"the old instances and {share:.0%} of the new ones run"
    )
    fleets = [*running, *((name, math.ceil(count * share)) for name, count in new)]
    if {name for name, _ in fleets} - {*prices}:
        return f"an unknown price for {span}, while {both}"
    total = sum(prices[name].hourly * count for name, count in fleets)
    return f"{format_price(total, prices[name].currency)} an hour for {span}, while {both}"
