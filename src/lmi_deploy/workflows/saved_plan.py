"""A plan as text, to be carried out later or on another machine: the spec, the artifact, and the digest of the
observed state.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from lmi_deploy.domain.action import Phase
from lmi_deploy.domain.dataclass_json import dump, load
from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.record import NOT_KNOWN, Author
from lmi_deploy.domain.settings_digest import digest
from lmi_deploy.errors import Refused, StalePlan, UsageRefused
from lmi_deploy.planning.stale_plan_check import Agreement, binding, require_price
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
    agreed: Agreement | None = None
    """The plan's actions and changes, by digests; None in the file of an earlier lmi."""
    folder: str = ""
    """Where it was planned: models of this machine may be in the same place below another folder."""
    content: str = ""
    """Digest of all others; empty in the file of an earlier lmi."""

    @property
    def digest(self) -> str:
        return digest(dump(replace(self, content="")))


def saved_plan(deployment: DeploymentPlan) -> str:
    saved = SavedPlan(
        schema=SCHEMA,
        spec=deployment.spec,
        artifact=deployment.artifact,
        seen=fingerprint(deployment),
        recipe=deployment.recipe,
        prices=deployment.hourly_prices,
        author=deployment.author,
        agreed=Agreement.to(deployment.plan),
        folder=str(Path.cwd()),
    )
    return json.dumps(dump(replace(saved, content=saved.digest)), indent=1) + "\n"


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
        saved = load(SavedPlan, found)
    except ValueError as why:
        raise _no_plan(origin, str(why)) from None
    of_an_earlier_lmi = not saved.content and saved.agreed is None
    if saved.content != saved.digest and not of_an_earlier_lmi:
        raise Refused(
            f"{origin}: it was changed after `lmi plan` wrote it", hint="plan again: nothing was changed"
        )
    return saved


def _no_plan(origin: str, wrong: str) -> UsageRefused:
    return UsageRefused(
        f"{origin}: not a plan written by `lmi plan --out FILE`: {wrong}",
        hint=f"write it again with `lmi plan RECIPE --out {origin}`",
    )


def resume(saved: SavedPlan, deps: Dependencies, *, probe: bool) -> DeploymentPlan:
    """The plan again, for the current observed state. StalePlan if anything but an earlier run of the plan has changed
    that; or what `prepare` raises.
    """
    deployment = make_plan(saved.spec, saved.artifact, deps, probe=True)
    if fingerprint(deployment) != saved.seen:
        if saved.agreed is None or not _has_begun(deployment):
            raise StalePlan(
                f"{saved.spec.name}: the plan is stale: the deployment has changed since the plan was made",
                hint="run `lmi plan` again, check the new plan and carry it out",
            )
        saved.agreed.require(deployment.plan)
    if (here := _found_here(saved.spec, Path(saved.folder))) != saved.spec:
        deployment = make_plan(here, saved.artifact, deps, probe=True)
    require_price(saved.spec.name, saved.prices, deployment.target.prices(deployment.inventory))
    findings = deployment.target.preflight(deployment.spec, deployment.plan, saved.recipe)
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


def _has_begun(deployment: DeploymentPlan) -> bool:
    """Whether what serves or starts now is the plan's own version, or there is nothing yet."""
    record = deployment.observed.record
    latest = (record.coming or record.current) if record else None
    planned = deployment.target.generation(
        deployment.spec, deployment.artifact, deployment.plan, deployment.observed, since=""
    )
    return latest is None or latest.spec == planned.spec


def _found_here(spec: Spec, planned_in: Path) -> Spec:
    """A model that was in a folder below that one, if it is gone there and in the same place below this folder."""

    def here(source: str, path: str) -> str:
        if source != "folder" or Path(path).exists() or not Path(path).is_relative_to(planned_in):
            return path
        moved = Path.cwd() / Path(path).relative_to(planned_in)
        return str(moved) if moved.exists() else path

    additional = tuple(
        replace(one, model_id=here(one.source, one.model_id)) for one in spec.weights.additional
    )
    return replace(
        spec,
        model=replace(spec.model, model_id=here(spec.model.source, spec.model.model_id)),
        weights=replace(spec.weights, additional=additional),
    )


def fingerprint(deployment: DeploymentPlan) -> str:
    return digest(
        [
            deployment.spec.name,
            deployment.target.fingerprint(deployment.observed),
            list(binding(deployment.plan)),
            list(deployment.plan.changes),
        ]
    )
