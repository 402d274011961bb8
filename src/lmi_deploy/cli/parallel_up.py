"""`lmi up A B ...`: one question for all plans, then each deployment in a process of its own."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lmi_deploy.cli.context import CommandContext
from lmi_deploy.cli.parallel_commands import CommandEnd, ParallelCommands
from lmi_deploy.cli.prompts import confirm
from lmi_deploy.domain.currency import format_price
from lmi_deploy.domain.dataclass_json import dump, load
from lmi_deploy.domain.target_spec import LocalPlace
from lmi_deploy.errors import DeployFailed, Interrupted, LmiError, RecipeError, Refused, UsageRefused
from lmi_deploy.errors.recipe_problem import Problem
from lmi_deploy.planning.stale_plan_check import Agreement, require_price
from lmi_deploy.ui.view import View
from lmi_deploy.workflows.deployment_plan import DeploymentPlan


def require_agreement(file: str, deployment: DeploymentPlan) -> None:
    """Refused if the plan has more than the user agreed to in the process that started this one."""
    agreed = load(Agreement, json.loads(Path(file).read_bytes()))
    agreed.require(deployment.plan)
    require_price(deployment.spec.name, agreed.prices, deployment.target.prices(deployment.inventory))


def prepare_all(paths: Sequence[str], prepare: Callable[[str], DeploymentPlan]) -> dict[str, DeploymentPlan]:
    """RecipeError with the mistakes of all recipes; any other error names its recipe."""
    plans: dict[str, DeploymentPlan] = {}
    mistakes: list[Problem] = []
    hint = ""
    for path in paths:
        try:
            plans[path] = prepare(path)
        except RecipeError as error:
            mistakes += error.problems
            hint = error.hint
        except LmiError as error:
            if not mistakes:
                error.message = f"{path}: {error.message}"
                raise
    if mistakes:
        raise RecipeError(mistakes, hint=hint)
    return plans


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelUp:
    """The deployments of several recipes, by their paths; `flags` are the options of each one's own `lmi up`."""

    plans: Mapping[str, DeploymentPlan]
    flags: Sequence[str]
    most: int
    max_hourly: float | None
    """Of all together."""

    def agree(self, context: CommandContext, *, yes: bool) -> None:
        """Show all plans, and ask once. UsageRefused if two are the same deployment, or need the same port here."""
        places = {path: plan.spec.place for path, plan in self.plans.items()}
        ports = {path: str(place.port) for path, place in places.items() if isinstance(place, LocalPlace)}
        _require_different("name", {path: f"{p.spec.name}, {p.ref.place}" for path, p in self.plans.items()})
        _require_different("endpoint.port", ports)
        for deployment in self.plans.values():
            context.show_plan(deployment.plan, deployment.estimate, deployment.notices)
        costs = self._require_affordable()
        changing = [plan for plan in self.plans.values() if not plan.plan.empty]
        context.view.note(f"\n{len(self.plans)} deployments, {len(changing)} to create or change{costs}")
        if changing:
            confirm("Go ahead?", yes=yes, free=not any(plan.target.billed for plan in changing))

    def run(self, context: CommandContext) -> None:
        """DeployFailed if one failed: the others are deployed all the same."""
        names = [plan.spec.name for plan in self.plans.values()]
        paths = {
            p.spec.name if names.count(p.spec.name) == 1 else path: path for path, p in self.plans.items()
        }
        with TemporaryDirectory(prefix="lmi-up-") as folder:
            words = {
                name: self._words(path, Path(folder, f"{number}.json"))
                for number, (name, path) in enumerate(paths.items())
            }
            commands = ParallelCommands(words, self.most)
            try:
                ends = commands.run(
                    lambda name, event: context.view.show(event, name),
                    lambda end: _show_end(end, context.view),
                )
            finally:
                context.view.close()
        context.view.rows([_row(end) for end in ends], spare=("error",))
        failed = [paths[end.name] for end in ends if not end.ok]
        if failed:
            raise _incomplete(failed, len(ends), self._again(failed), interrupted=commands.is_stopped)
        context.view.result({"deployments": [dict(end.result) for end in ends]})

    def _again(self, paths: Sequence[str]) -> str:
        """The command for these alone, with the options that the user gave."""
        limit = [] if self.max_hourly is None else [f"--max-hourly={self.max_hourly:g}"]
        return shlex.join(["lmi", "up", *paths, *self.flags, *limit])

    def _words(self, path: str, agreement: Path) -> list[str]:
        """The command of one deployment, which refuses what is not in its agreement."""
        plan = self.plans[path]
        agreed = Agreement.to(plan.plan, plan.hourly_prices)
        agreement.write_text(json.dumps(dump(agreed)), encoding="utf-8")
        plan.target.hand_over(plan.ref)
        place = plan.spec.place
        port = [f"--set=endpoint.port={place.port}"] if isinstance(place, LocalPlace) else []
        limit = [f"--max-hourly={self._own_limit(plan):g}"] if self.max_hourly and plan.following else []
        return ["up", path, *self.flags, *port, *limit, "--yes", "--json", "--agreed", str(agreement)]

    def _own_limit(self, plan: DeploymentPlan) -> float:
        """For its next regions, where the prices are others: its cost here, and an equal part of what is left."""
        assert self.max_hourly is not None
        left = self.max_hourly - sum(_most_hourly(each) or 0.0 for each in self.plans.values())
        return (_most_hourly(plan) or 0.0) + left / len(self.plans)

    def _require_affordable(self) -> str:
        """The cost of all together, in words; Refused if it may be above the limit."""
        most = self.max_hourly
        for deployment in self.plans.values():
            deployment.require_affordable(most)
        found = [_most_hourly(plan) for plan in self.plans.values()]
        total = sum(cost for cost in found if cost is not None)
        if most is not None and total > most:
            text = format_price(total, "USD")
            raise Refused(
                f"--max-hourly {most:g}: {len(found)} deployments together may cost {text} an hour",
                hint=f"allow {text}, or deploy fewer",
            )
        more = ", and more whose price is unknown" if None in found else ""
        return f"; at most {format_price(total, 'USD')} an hour together{more}" if total else ""


def _most_hourly(plan: DeploymentPlan) -> float | None:
    """None if the price is unknown."""
    return plan.target.most_hourly(plan.spec, plan.inventory)


def _require_different(key: str, values: Mapping[str, str]) -> None:
    """`values` by the path of the recipe."""
    by_value: dict[str, list[str]] = {}
    for path, value in values.items():
        by_value.setdefault(value, []).append(path)
    for value, paths in by_value.items():
        if len(paths) > 1:
            what = f"{' and '.join(paths)}: the same {key}: {value}"
            raise UsageRefused(what, hint=f"give each its own {key}")


def _show_end(end: CommandEnd, view: View) -> None:
    view.end(end.name)
    if not end.ok:
        error = end.result["error"]
        details = "".join(f"  {line}\n" for line in error.get("details", ()))
        view.note(f"{details}error: {end.name}: {error['message']}\n  next: {error['hint']}")


def _row(end: CommandEnd) -> dict[str, Any]:
    """For the table of outcomes."""
    address, error = end.result.get("address", ""), end.result.get("error", {}).get("message", "")
    return {
        "deployment": end.name,
        "outcome": "ok" if end.ok else "failed",
        "address": address,
        "error": error,
    }


def _incomplete(failed: Sequence[str], count: int, command: str, *, interrupted: bool) -> LmiError:
    again = f"run `{command}` again: it continues"
    if interrupted:
        return Interrupted(f"interrupted: {len(failed)} of {count} deployments are not complete", hint=again)
    return DeployFailed(f"{len(failed)} of {count} deployments failed: {', '.join(failed)}", hint=again)
