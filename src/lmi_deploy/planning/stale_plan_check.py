"""Carry out only what the user agreed to: compare the plan that was shown with the one for the current observed
state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lmi_deploy.domain.currency import format_price
from lmi_deploy.domain.observed_state import Price
from lmi_deploy.domain.plan import Action, Change, Plan
from lmi_deploy.errors import Refused

_HINT: Final = "nothing was changed. Run the command again and check the new plan"
_CENT: Final = 0.005


def binding(plan: Plan) -> tuple[Action, ...]:
    """The actions of a plan that must not differ from what the user agreed to."""
    return tuple(action for action in plan.actions if action.binding)


def require_agreed(shown: Plan, now: Plan) -> None:
    """Refused for an action that was not shown. Fewer actions are accepted: they were carried out since."""
    agreed = binding(shown)
    surprises = [action.title for action in binding(now) if action not in agreed]
    if surprises:
        raise Refused(
            f"{now.deployment}: the plan is stale: it would now also {', '.join(surprises)}",
            hint=_HINT,
        )
    if binding(now) and now.changes != shown.changes:
        differing = [_words(change) for change in now.changes if change not in shown.changes]
        what = ", ".join(differing[:3]) or "fewer changes than shown"
        raise Refused(
            f"{now.deployment}: the plan is stale: the deployment has changed; it would now change {what}",
            hint=_HINT,
        )


def require_price(name: str, shown: Mapping[str, float], now: Mapping[str, Price]) -> None:
    """Refused if an instance type costs more than when the plan was made. An unknown price is no difference."""
    for instance, price in now.items():
        if price.hourly > shown.get(instance, price.hourly) + _CENT:
            before, today = (
                format_price(shown[instance], price.currency),
                format_price(price.hourly, price.currency),
            )
            raise Refused(
                f"{name}: the plan is stale: {instance} now costs {today} an hour, {before} when the plan was made",
                hint=_HINT,
            )


def _words(change: Change) -> str:
    return f"{change.field} from {change.before or 'nothing'} to {change.after or 'nothing'}"
