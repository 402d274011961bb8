"""A limit on the hourly cost of a deployment, checked before anything is created."""

from __future__ import annotations

from lmi_deploy.domain.currency import format_price
from lmi_deploy.domain.observed import CloudInventory, CloudObserved
from lmi_deploy.domain.record import DeploymentRef, Generation
from lmi_deploy.domain.sagemaker.actions import RunTransferJob
from lmi_deploy.domain.target_spec import SageMakerPlace
from lmi_deploy.errors import Refused
from lmi_deploy.targets.sagemaker.costs import cost_of, generation_cost, job_cost
from lmi_deploy.targets.sagemaker.plan.summary import UNKNOWN_PRICE
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.deployment_plan import DeploymentPlan


def is_free(deployment: DeploymentPlan) -> bool:
    """Whether it is not billed: an unknown price does not count as free."""
    return not isinstance(deployment.spec.place, SageMakerPlace)


def require_affordable(deployment: DeploymentPlan, most: float | None) -> None:
    """Refused if any instance type of the recipe may cost more, fully scaled, or its price is unknown."""
    if most is None or deployment.plan.empty:
        return
    match deployment.spec.place, deployment.inventory:
        case SageMakerPlace() as place, CloudInventory(prices=prices):
            for placement in place.placements:
                cost = cost_of(place, placement, prices)
                if cost is None:
                    raise Refused(
                        f"--max-hourly {most:g}: nobody could tell what {placement.instance} costs",
                        hint="leave the bound out, or choose an instance type with a known price",
                    )
                if cost.high > most:
                    raise Refused(
                        f"--max-hourly {most:g}: {deployment.spec.name} may cost {cost.words}",
                        hint=f"allow {format_price(cost.high, cost.price.currency)}, or take fewer or "
                        "smaller instances",
                    )
            if deployment.has_action(RunTransferJob):
                _require_affordable_job(deployment, place, deployment.inventory, most)
        case _:
            pass  # an existing machine


def _require_affordable_job(
    deployment: DeploymentPlan, place: SageMakerPlace, inventory: CloudInventory, most: float
) -> None:
    """During the deployment the current generation costs, too."""
    cost, serving = job_cost(place, inventory), _serving_cost(deployment, inventory)
    if cost is None:
        instance = place.job.instance if place.job else ""
        raise Refused(
            f"--max-hourly {most:g}: nobody could tell what the transfer job on {instance} costs",
            hint="leave the bound out, or choose weights.job.instance_type with a known price",
        )
    total = cost.high + serving
    if total > most:
        extra = f" beside the {format_price(serving, cost.price.currency)} of what serves" if serving else ""
        raise Refused(
            f"--max-hourly {most:g}: the transfer job of {deployment.spec.name} costs {cost.words}{extra}",
            hint=f"allow {format_price(total, cost.price.currency)}, take fewer or smaller instances "
            "(weights.job), or send "
            "the weights from here (weights.via: stream)",
        )


def _serving_cost(deployment: DeploymentPlan, inventory: CloudInventory) -> float:
    """Per hour of the endpoint as it is now; 0 if it costs nothing, or has an instance type that is not in the
    recipe.
    """
    observed = deployment.observed
    if not isinstance(observed, CloudObserved) or observed.endpoint is None or observed.serving is None:
        return 0.0
    current = observed.record.current if observed.record else None
    price = inventory.prices.get(current.instance) if current else None
    return max(observed.endpoint.count, observed.endpoint.desired_count, 1) * price.hourly if price else 0.0


def require_affordable_generation(
    generation: Generation, ref: DeploymentRef, deps: Dependencies, most: float | None
) -> str:
    """The hourly cost of a generation, in words; Refused if that may be above the limit, or is unknown."""
    price = deps.cloud(ref.region).prices.hourly(generation.instance) if generation.instance else None
    cost = generation_cost(generation, price)
    if most is not None and cost is None:
        raise Refused(
            f"--max-hourly {most:g}: nobody could tell what {generation.instance or generation.server} costs",
            hint="leave the bound out",
        )
    if most is not None and cost is not None and cost.high > most:
        raise Refused(
            f"--max-hourly {most:g}: the generation {generation.server} may cost {cost.words}",
            hint=f"allow {format_price(cost.high, cost.price.currency)}, or go back to another generation",
        )
    return cost.words if cost else UNKNOWN_PRICE
