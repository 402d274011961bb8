"""Compare a spec with the observed state: what exists, and what must be done."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lmi_deploy.domain.artifact import Artifact
from lmi_deploy.domain.observed import CloudInventory, Inventory, Observed
from lmi_deploy.domain.plan import Action, Plan
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.sagemaker.actions import DeleteEndpoint
from lmi_deploy.domain.spec import Spec
from lmi_deploy.targets.plan import PROBES, diff, notices
from lmi_deploy.targets.status import failed_update_reason, missing_parts
from lmi_deploy.workflows.dependencies import Dependencies


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentPlan:
    """One recipe, followed as far as its plan."""

    spec: Spec
    artifact: Artifact
    observed: Observed
    inventory: Inventory
    plan: Plan
    notices: tuple[str, ...] = ()
    """Notices for the user that stop nothing."""
    recipe: str = "RECIPE"
    """The recipe's name for a command line, quoted for a shell; a placeholder if it is unknown."""

    @property
    def ref(self) -> DeploymentRef:
        return self.spec.ref

    def has_action(self, kinds: type[Action] | tuple[type[Action], ...]) -> bool:
        """Whether the plan has an action of such a kind."""
        return any(isinstance(action, kinds) for action in self.plan.actions)


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
    inventory = _keep_placement(target.inventory(spec, deps.hub(spec.model.model_id)), before)
    plan = diff(spec, artifact, observed, inventory)
    if not plan.empty:
        # Only now: a deployment that is in step needs no further look.
        observed = target.confirm(observed)
    if before is None and (priced or not plan.empty):
        # Nor does an `up` of it need a price list.
        inventory = target.with_prices(spec, inventory)
    plan = diff(spec, artifact, observed, inventory)
    if not probe:
        plan = replace(plan, actions=tuple(a for a in plan.actions if not isinstance(a, PROBES)))
    return DeploymentPlan(spec=spec, artifact=artifact, observed=observed, inventory=inventory, plan=plan)


def observed_notices(deployment: DeploymentPlan) -> tuple[str, ...]:
    """Problems of the existing resources, and what the plan does about them."""
    missing = missing_parts(deployment.observed, replaced=deployment.has_action(DeleteEndpoint))
    return tuple(
        filter(
            None,
            (
                *notices(deployment.observed, deployment.plan),
                failed_update_reason(deployment.observed),
                missing,
            ),
        )
    )


def _keep_placement(inventory: Inventory, before: Inventory | None) -> Inventory:
    if isinstance(inventory, CloudInventory) and isinstance(before, CloudInventory):
        return replace(
            inventory,
            prices=before.prices,
            job_price=before.job_price,
            priced=before.priced,
            avoid=before.avoid,
        )
    return inventory
