"""Compare a spec with the observed state: what exists, and what must be done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lmi_deploy.domain.action import Phase
from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.observed_state import Inventory, Observed
from lmi_deploy.domain.plan import Estimate, Plan
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.errors import LmiError
from lmi_deploy.targets.target import AnyTarget
from lmi_deploy.workflows.dependencies import Dependencies


@dataclass(frozen=True, slots=True, kw_only=True)
class NextRegion:
    """Where the recipe may be deployed if this region has no capacity; `prepare` makes the plan."""

    region: str
    prepare: Callable[[], DeploymentPlan]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentPlan:
    """One recipe, followed as far as its plan."""

    target: AnyTarget
    spec: Spec
    artifact: Artifact
    observed: Observed
    inventory: Inventory
    plan: Plan
    estimate: Estimate
    notices: tuple[str, ...] = ()
    """Notices for the user that stop nothing."""
    recipe: str = "RECIPE"
    """The recipe's name for a command line, quoted for a shell; a placeholder if it is unknown."""
    following: NextRegion | None = None
    """Only of a recipe with `endpoint.regions`, and of what does not serve yet."""
    refusal: LmiError | None = None
    """What `up` raises before it changes anything: a permission, role or quota is missing."""

    @property
    def ref(self) -> DeploymentRef:
        return self.spec.ref

    @property
    def hourly_prices(self) -> dict[str, float]:
        """By instance type, as the plan shows them."""
        return {name: price.hourly for name, price in self.target.prices(self.inventory).items()}

    def require_possible(self) -> None:
        if self.refusal is not None:
            raise self.refusal

    def require_affordable(self, most: float | None) -> None:
        """Refused if it may cost more than `most` per hour, fully scaled, or its price is unknown."""
        if most is not None and not self.plan.empty:
            self.target.require_affordable(self.spec, self.plan, self.observed, self.inventory, most)


def make_plan(
    spec: Spec,
    artifact: Artifact,
    deps: Dependencies,
    *,
    probe: bool,
    before: Inventory | None = None,
    priced: bool = False,
) -> DeploymentPlan:
    """The plan for the current observed state. Facts in `before` that do not change are reused.

    `priced`: with prices, even for a plan that changes nothing.
    """
    target = deps.targets[spec.target]
    observed = target.observe(spec.ref)
    inventory = target.inventory(spec, deps.hub)
    if before is not None:
        inventory = target.keep_choices(inventory, before)
    plan = target.plan_deployment(spec, artifact, observed, inventory)
    # A deployment that is in step needs no further look, and an `up` of it no price list.
    priced = before is None and (priced or not plan.empty)
    if not plan.empty and (confirmed := target.confirm(observed)) != observed:
        observed, plan = confirmed, target.plan_deployment(spec, artifact, confirmed, inventory)
    if priced:
        inventory = target.with_prices(spec, inventory)
    return DeploymentPlan(
        target=target,
        spec=spec,
        artifact=artifact,
        observed=observed,
        inventory=inventory,
        plan=plan if probe else plan.without(Phase.PROBE),
        estimate=target.estimate(spec, inventory),
    )
