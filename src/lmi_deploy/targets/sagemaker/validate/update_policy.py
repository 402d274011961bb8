"""How an update replaces the instances: what SageMaker refuses, and what it would replace by another policy.

Sources: SageMaker's API reference (TrafficRoutingConfig, RollingUpdatePolicy); its developer guide, "Exclusions" and
"Auto-Rollback Configuration and Monitoring".
"""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.recipe.checks.issue import Issue, Rule

_SMALLEST_LINEAR_STEP = 10


def _steps(recipe: Recipe) -> Iterator[Issue]:
    update = recipe.endpoint.update
    if update is None:
        return
    if update.policy == "all-at-once":
        if update.step_percent is not None:
            yield _issue("step_percent", "policy all-at-once has one step", "remove it, or set policy")
        return
    if recipe.endpoint.initial_count < 2:
        what = f"{update.policy}: a step is at most 50 % of the instances, and there is one"
        yield _issue("policy", what, "set endpoint.count: 2 or more, or omit it")
    if update.policy == "linear" and (update.step_percent or 100) < _SMALLEST_LINEAR_STEP:
        what = f"{update.step_percent} % is below SageMaker's smallest linear step"
        yield _issue("step_percent", what, f"at least {_SMALLEST_LINEAR_STEP}")
    if update.policy == "rolling" and update.keep_old:
        what = "policy rolling ends the old instances step by step"
        yield _issue("keep_old", what, "remove it, or use canary or linear")
    if any(name.startswith("ml.inf1.") for name in recipe.instance_type):
        what = f"SageMaker updates endpoints on Inf1 all at once, whatever the policy says: {update.policy}"
        yield _issue("policy", what, "omit it")


def _waits(recipe: Recipe) -> Iterator[Issue]:
    update = recipe.endpoint.update
    if update is not None and update.wait and not update.alarms:
        what = "nothing is watched during the wait: SageMaker needs alarms for it"
        yield _issue("wait", what, "add endpoint.update.alarms, or remove it")


def _issue(key: str, what: str, hint: str) -> Issue:
    return Issue(path=f"endpoint.update.{key}", what=what, hint=hint, depends_on=("endpoint.update",))


RULES: tuple[Rule, ...] = (_steps, _waits)
