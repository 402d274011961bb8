"""`lmi.plan`: what `lmi.up` would do, as a value that can be looked at, and carried out."""

from __future__ import annotations

import sys
from os import PathLike
from typing import Any

from lmi_deploy.api.recipes import Recipe
from lmi_deploy.api.session import dependencies, explained
from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.plan import Action, Change
from lmi_deploy.errors import LmiError
from lmi_deploy.ui.colour import Paint
from lmi_deploy.ui.json_view import plan_fields
from lmi_deploy.ui.plan_text import plan_lines
from lmi_deploy.workflows import up
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.deployment_plan import DeploymentPlan

RecipeLike = Recipe | str | PathLike[str]
"""A recipe, or the path of its file."""


class Plan:
    """What would change. `print(plan)` shows it as `lmi plan` does; `lmi.up(plan)` carries out exactly this, or refuses
    if the deployment has changed since.
    """

    def __init__(self, prepared: DeploymentPlan, deps: Dependencies) -> None:
        self._prepared, self._deps = prepared, deps

    @property
    def name(self) -> str:
        """Of the deployment."""
        return self._prepared.spec.name

    @property
    def is_empty(self) -> bool:
        """Whether the deployment is as its recipe says."""
        return self._prepared.plan.empty

    @property
    def actions(self) -> tuple[Action, ...]:
        """In their order; each has a `title`."""
        return self._prepared.plan.actions

    @property
    def changes(self) -> tuple[Change, ...]:
        """The fields of a running deployment that differ from the recipe."""
        return self._prepared.plan.changes

    @property
    def estimate(self) -> dict[str, str]:
        """In words, by name: cost, weights, fit."""
        return dict(self._prepared.estimate.figures)

    @property
    def notices(self) -> tuple[str, ...]:
        """What the user should know, and what stops nothing."""
        return self._prepared.notices

    @property
    def refusal(self) -> LmiError | None:
        """What `lmi.up` of this plan raises before it changes anything, such as a missing permission."""
        return self._prepared.refusal

    def to_dict(self) -> dict[str, Any]:
        """As `lmi plan --json` prints it."""
        return dict(plan_fields(self._prepared.plan, self._prepared.estimate))

    def __str__(self) -> str:
        plain = Paint(sys.stdout, {"NO_COLOR": "1"})
        lines = plan_lines(self._prepared.plan, self._prepared.estimate, plain)
        refused = [f"  lmi up refuses it: {self.refusal}"] if self.refusal else []
        return "\n".join([*lines, *(f"  {notice}" for notice in self.notices), *refused])

    def __repr__(self) -> str:
        return f"<Plan of {self.name}: {counted(len(self.actions), 'action')}>"


def plan(recipe: RecipeLike, *, max_hourly: float | None = None, force_fit: bool = False) -> Plan:
    """What `lmi.up` would change. It reads the account and the model's repository, and changes nothing.

    Refused if the deployment may cost more than `max_hourly` dollars. A plan that loads a model is refused if it does
    not fit, unless `force_fit`.
    """
    with explained():
        deps = dependencies()
        prepared = up.preview(opened(recipe).parse(), deps, priced=True, force_fit=force_fit)
        prepared.require_affordable(max_hourly)
        return Plan(prepared, deps)


def opened(recipe: RecipeLike) -> Recipe:
    return recipe if isinstance(recipe, Recipe) else Recipe.load(recipe)


def carried_out(plan: Plan) -> tuple[DeploymentPlan, Dependencies]:
    """What `lmi.up` needs of it."""
    return plan._prepared, plan._deps
