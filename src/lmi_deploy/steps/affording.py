"""A bound on what a deployment may cost an hour, held before anything is made."""

from __future__ import annotations

from lmi_deploy.core.money import money
from lmi_deploy.core.observed import CloudHeld
from lmi_deploy.core.place import SageMakerPlace
from lmi_deploy.decide.costs import cost_of
from lmi_deploy.errors import Refused
from lmi_deploy.steps.looking import Case


def is_free(case: Case) -> bool:
    """Whether nobody bills for it: a price that nobody could tell is one all the same."""
    return not isinstance(case.spec.place, SageMakerPlace)


def require_affordable(case: Case, most: float | None) -> None:
    """Refused where any instance type of the recipe may cost more, fully scaled, or its price is unknown."""
    if most is None or case.plan.empty:
        return
    match case.spec.place, case.held:
        case SageMakerPlace() as place, CloudHeld(prices=prices):
            for placement in place.placements:
                cost = cost_of(place, placement, prices)
                if cost is None:
                    raise Refused(
                        f"--max-hourly {most:g}: nobody could tell what {placement.instance} costs",
                        hint="leave the bound out, or choose an instance type with a known price",
                    )
                if cost.high > most:
                    raise Refused(
                        f"--max-hourly {most:g}: {case.spec.name} may cost {cost.words}",
                        hint=f"allow {money(cost.high, cost.price.currency)}, or take fewer or smaller instances",
                    )
        case _:
            pass  # a machine that is there already
