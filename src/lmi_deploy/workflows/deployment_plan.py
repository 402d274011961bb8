"""Compare a spec with the observed state: what exists, and what must be done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

from lmi_deploy.domain.action import Phase
from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.observed_state import Inventory, Observed
from lmi_deploy.domain.plan import Estimate, Plan
from lmi_deploy.domain.price_table import is_old, reads_the_list
from lmi_deploy.domain.record import NOT_KNOWN, Author, DeploymentRef
from lmi_deploy.errors import LmiError, Refused
from lmi_deploy.targets.target import AnyTarget
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.price_refresh import current_prices


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
    author: Author = NOT_KNOWN
    """Who deploys it, from which file."""
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

    @property
    def other_recipe(self) -> str:
        """If a recipe of another file or repository is about to replace the one that serves: which, in words."""
        before = self.observed.record.recipe_author if self.observed.record else NOT_KNOWN
        if self.plan.empty or not self.author.is_other_recipe(before):
            return ""
        return (
            f"{self.ref.name} was deployed from {before.recipe}, by {before.arn}; this recipe is "
            f"{self.author.recipe}"
        )

    def require_same_recipe(self) -> None:
        """Refused if another recipe has the name: of an `up` that no user looks at."""
        if self.other_recipe:
            raise Refused(
                self.other_recipe,
                hint="choose another name in one of the recipes; or --take-over replaces it. Nothing was changed",
            )

    def require_affordable(self, most: float | None) -> None:
        """Refused if it may cost more than `most` per hour, fully scaled, or its price is unknown."""
        changes = not self.plan.empty or self.observed.scaling_elsewhere is not None
        if most is not None and changes:
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
    priced = before is None and (priced or not plan.empty or observed.scaling_elsewhere is not None)
    if not plan.empty and (confirmed := target.confirm(observed)) != observed:
        observed, plan = confirmed, target.plan_deployment(spec, artifact, confirmed, inventory)
    notices: tuple[str, ...] = ()
    if priced:
        inventory, notices = _with_prices(spec, observed, inventory, target, deps)
    estimate = target.estimate(target.with_other_scaling(spec, observed), inventory)
    if priced and (words := target.during_update(spec, plan, observed, inventory)):
        estimate = estimate.plus("during the update", words)
    return DeploymentPlan(
        target=target,
        spec=spec,
        artifact=artifact,
        observed=observed,
        inventory=inventory,
        plan=plan if probe else plan.without(Phase.PROBE),
        estimate=estimate,
        notices=notices,
    )


def _with_prices(
    spec: Spec, observed: Observed, inventory: Inventory, target: AnyTarget, deps: Dependencies
) -> tuple[Inventory, tuple[str, ...]]:
    """From AWS's public list where the Price List API gave none, and those on this machine are old; and notices."""
    inventory, today = target.with_prices(spec, observed, inventory), deps.clock.now().date()
    if not _doubt(spec, inventory, target, today):
        return inventory, ()
    table, region = current_prices(spec.ref.region, deps), spec.ref.region
    inventory = target.with_prices(spec, observed, inventory)
    doubt, listed = _doubt(spec, inventory, target, today), table.of(region)
    if not doubt:
        return inventory, ()
    way = (
        f"AWS's list of {region}, read on {listed.date}, has no other"
        if listed.complete
        else reads_the_list(region)
    )
    return inventory, (f"{doubt}: {way}", *table.problems)


def _doubt(spec: Spec, inventory: Inventory, target: AnyTarget, today: date) -> str:
    """What is wrong with the prices of a plan; empty if nothing is."""
    if target.most_hourly(spec, inventory) is None:
        return "a price is unknown"
    old = [name for name, price in target.prices(inventory).items() if is_old(price, today)]
    return f"the price of {' and '.join(old)} is older than half a year, or of unknown age" if old else ""
