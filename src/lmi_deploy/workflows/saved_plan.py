"""A plan as text, to be carried out later or on another machine: the spec, the artifact, and the digest of the
observed state.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Final

from lmi_deploy.domain.action import Phase
from lmi_deploy.domain.dataclass_json import dump, load
from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.record import NOT_KNOWN, Author
from lmi_deploy.domain.settings_digest import digest
from lmi_deploy.errors import Refused, UsageRefused
from lmi_deploy.planning.stale_plan_check import binding, require_price
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.deployment_plan import DeploymentPlan, make_plan

SCHEMA: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedPlan:
    schema: int
    spec: Spec
    artifact: Artifact
    seen: str
    """Digest of the observed state for which the plan was made, and of the plan's actions."""
    recipe: str = "RECIPE"
    """The recipe's name in a command."""
    prices: dict[str, float] = field(default_factory=dict)
    """Of an hour, by instance type, as they were shown."""
    author: Author = NOT_KNOWN
    """Who planned it, from which file."""


def saved_plan(deployment: DeploymentPlan) -> str:
    saved = SavedPlan(
        schema=SCHEMA,
        spec=deployment.spec,
        artifact=deployment.artifact,
        seen=fingerprint(deployment),
        recipe=deployment.recipe,
        prices=deployment.hourly_prices,
        author=deployment.author,
    )
    return json.dumps(dump(saved), indent=1) + "\n"


def read_plan(text: bytes, origin: str) -> SavedPlan:
    """UsageRefused, with the position of the error, if `lmi plan --out` cannot have written it."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as why:
        cut = not text.rstrip().endswith(b"}")
        wrong = "it ends too early" if cut else f"it is not JSON (line {why.lineno}, column {why.colno})"
        raise _no_plan(origin, wrong if text.strip() else "it is empty") from None
    except (ValueError, RecursionError):
        raise _no_plan(origin, "it is not JSON") from None
    schema = found.get("schema") if isinstance(found, dict) else None
    if type(schema) is not int:
        raise _no_plan(origin, "it has no schema number")
    if schema > SCHEMA:
        raise Refused(
            f"{origin}: written by a newer lmi", hint="use that version, or plan again with this one"
        )
    try:
        return load(SavedPlan, found)
    except ValueError as why:
        raise _no_plan(origin, str(why)) from None


def _no_plan(origin: str, wrong: str) -> UsageRefused:
    return UsageRefused(
        f"{origin}: not a plan written by `lmi plan --out FILE`: {wrong}",
        hint=f"write it again with `lmi plan RECIPE --out {origin}`",
    )


def resume(saved: SavedPlan, deps: Dependencies, *, probe: bool) -> DeploymentPlan:
    """The plan again, for the current observed state. Refused if that has changed, or what `prepare` raises."""
    deployment = make_plan(saved.spec, saved.artifact, deps, probe=True)
    if fingerprint(deployment) != saved.seen:
        raise Refused(
            f"{saved.spec.name}: the plan is stale: the deployment has changed since the plan was made",
            hint="run `lmi plan` again, check the new plan and carry it out",
        )
    require_price(saved.spec.name, saved.prices, deployment.target.prices(deployment.inventory))
    findings = deployment.target.preflight(saved.spec, deployment.plan, saved.recipe)
    notices = (*deployment.target.notices(deployment.observed, deployment.plan), *findings.notices)
    plan = deployment.plan if probe else deployment.plan.without(Phase.PROBE)
    resumed = replace(
        deployment,
        plan=plan,
        notices=notices,
        recipe=saved.recipe,
        # Another machine, and another user, may carry it out.
        author=replace(saved.author, arn=deps.who(saved.spec.ref).arn),
        refusal=findings.refusal,
    )
    resumed.require_possible()
    return resumed


def fingerprint(deployment: DeploymentPlan) -> str:
    return digest(
        [
            deployment.spec.name,
            deployment.target.fingerprint(deployment.observed),
            list(binding(deployment.plan)),
            list(deployment.plan.changes),
        ]
    )
