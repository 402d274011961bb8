"""Carry out only what the user agreed to: compare the plan that was shown with the one for the current observed
state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lmi_deploy.domain.currency import format_price
from lmi_deploy.domain.observed_state import Price
from lmi_deploy.domain.plan import Action, Change, Plan
from lmi_deploy.domain.settings_digest import digest
from lmi_deploy.errors import StalePlan

_HINT: Final = "nothing was changed. Run the command again and check the new plan"
_CENT: Final = 0.005


def binding(plan: Plan) -> tuple[Action, ...]:
    """The actions of a plan that must not differ from what the user agreed to."""
    return tuple(action for action in plan.actions if action.binding)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """A plan to which the user agreed, by digests: it can go to another process, and contains no setting."""

    actions: tuple[str, ...]
    changes: tuple[str, ...]
    prices: dict[str, float]
    """Of an hour, by instance type, as they were shown."""

    @classmethod
    def to(cls, shown: Plan, prices: dict[str, float] | None = None) -> Agreement:
        return cls(
            actions=tuple(digest(action) for action in binding(shown)),
            changes=tuple(digest(change) for change in shown.changes),
            prices=prices or {},
        )

    def require(self, now: Plan, *, free: tuple[type[Action], ...] = ()) -> None:
        """Refused for an action that was not shown, unless it is of a kind in `free`. Fewer actions are accepted: they
        were carried out since.
        """
        new = [action for action in binding(now) if digest(action) not in self.actions]
        surprises = [action.title for action in new if not isinstance(action, free)]
        if surprises:
            raise StalePlan(
                f"{now.deployment}: the plan is stale: it would now also {', '.join(surprises)}", hint=_HINT
            )
        if binding(now) and tuple(digest(change) for change in now.changes) != self.changes:
            differing = [_words(change) for change in now.changes if digest(change) not in self.changes]
            what = ", ".join(differing[:3]) or "fewer changes than shown"
            raise StalePlan(
                f"{now.deployment}: the plan is stale: the deployment has changed; it would now change {what}",
                hint=_HINT,
            )


def require_agreed(shown: Plan, now: Plan, *, free: tuple[type[Action], ...] = ()) -> None:
    """The same, in the process that showed the plan."""
    Agreement.to(shown).require(now, free=free)


def require_price(name: str, shown: Mapping[str, float], now: Mapping[str, Price]) -> None:
    """Refused if an instance type costs more than when the plan was made. An unknown price is no difference."""
    for instance, price in now.items():
        if price.hourly > shown.get(instance, price.hourly) + _CENT:
            before, today = (
                format_price(shown[instance], price.currency),
                format_price(price.hourly, price.currency),
            )
            raise StalePlan(
                f"{name}: the plan is stale: {instance} now costs {today} an hour, {before} when the plan was made",
                hint=_HINT,
            )


def _words(change: Change) -> str:
    return f"{change.field} from {change.before or 'nothing'} to {change.after or 'nothing'}"
