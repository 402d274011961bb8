"""`lmi bench experiment`, or `lmi bench RECIPE`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lmi_deploy.api.experiment_recipes import VariantRecipes, experiment_images, experiment_prompts
from lmi_deploy.api.load_measurement import LiveProgress, require_client
from lmi_deploy.api.recipe_loading import read_recipe
from lmi_deploy.cli.bench_progress import show_measured, tables_if_lost
from lmi_deploy.cli.bench_verdicts import UndecidedIs, require_objectives, undecided_option
from lmi_deploy.cli.commands.bench_report import show_conclusion, show_report
from lmi_deploy.cli.context import CommandContext, open_context
from lmi_deploy.cli.prompts import confirm
from lmi_deploy.cli.report_outputs import ReportFiles, report_files_options
from lmi_deploy.cli.shared_options import amount, json_option, recipe_argument, recipe_options, yes_option
from lmi_deploy.domain.events import Event
from lmi_deploy.domain.number_text import counted, seconds_text
from lmi_deploy.domain.recipe_keys import RECIPE_SUFFIXES
from lmi_deploy.errors import DeployFailed, Interrupted, Refused, UsageRefused

if TYPE_CHECKING:
    from lmi_deploy.bench.experiment import Outcome
    from lmi_deploy.bench.experiment_plan import ExperimentPlan
    from lmi_deploy.bench.experiment_results import ResultsFolder
    from lmi_deploy.bench.report import Report
    from lmi_deploy.bench.run_sequence import MeasuredLoad
    from lmi_deploy.domain.recipe_bench_keys import Bench
    from lmi_deploy.domain.recipe_keys import Recipe

_AGAIN = "run the same command again: it measures only what is missing"


@click.command("experiment")
@recipe_argument
@recipe_options
@click.option(
    "--results",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="The folder of the results; cells that are finished there are not measured again.  [default: bench-NAME]",
)
@click.option(
    "--max-cost",
    type=float,
    callback=amount,
    metavar="DOLLARS",
    help="Refuse (exit 5) if the experiment may cost more, or a price is unknown; end it before it does.",
)
@click.option(
    "--rehearse",
    is_flag=True,
    help="Instead: a few requests of each deployment on this machine, as `lmi rehearse` deploys it; it costs nothing.",
)
@report_files_options
@undecided_option("pass")
@yes_option
@json_option
def command(
    *,
    recipe: str | None,
    overlay: str | None,
    sets: tuple[str, ...],
    results: Path | None,
    max_cost: float | None,
    rehearse: bool,
    files: ReportFiles,
    undecided: UndecidedIs,
    yes: bool,
    as_json: bool,
) -> None:
    """Run the experiment in `bench` of RECIPE: deploy, measure and delete each variant, and compare them.

    The deployments get names of their own; a running deployment of the recipe is not touched. A cell that fails does
    not stop the others. Ctrl-C deletes what runs. The same command again measures what is missing in DIR, and
    writes the report of all. --rehearse tries it before it costs anything.
    """
    from lmi_deploy.bench.experiment_results import ResultsFolder

    require_client()
    context = open_context(as_json=as_json)
    read = read_recipe(recipe, overlay=overlay, sets=sets)
    if read.bench is None:
        raise UsageRefused(
            f"{read.origin}: it has no key bench", hint="add `bench` with variants or a matrix"
        )
    variants = VariantRecipes(read, overlay, sets)
    if rehearse:
        _rehearse(read, read.bench, variants, context, files)
        return
    folder = ResultsFolder(results or Path(f"bench-{read.name}"))
    with folder.hold():
        plan = _plan(read, read.bench, variants, folder, context)
        _agree(plan, folder, context, yes=yes, most=max_cost)
        outcome, report = _run(plan, folder, context, most=max_cost)
        with tables_if_lost(report, context):
            folder.keep_report(report)
        context.view.note(f"wrote {folder.report}")
    written = show_report(report, context, files) if report.points else ()

    def require_all() -> None:
        _require_complete(outcome)
        require_objectives(report, undecided)

    show_conclusion(report, context, written, require_all)


def _plan(
    recipe: Recipe, bench: Bench, read: VariantRecipes, folder: ResultsFolder, context: CommandContext
) -> ExperimentPlan:
    from lmi_deploy.bench.experiment_plan import ExperimentPlanner

    planner = ExperimentPlanner(
        recipe=recipe,
        bench=bench,
        read=read,
        prompts=experiment_prompts(recipe, bench),
        images=experiment_images(recipe, bench),
        token=folder.token,
        deps=context.deps,
    )
    return planner.plan()


def _rehearse(
    recipe: Recipe, bench: Bench, read: VariantRecipes, context: CommandContext, files: ReportFiles
) -> None:
    """No verdict counts: all figures are those of a stand-in."""
    from lmi_deploy.bench.rehearsed_experiment import NOTE, RehearsedExperiment
    from lmi_deploy.composition.rehearsal import rehearsal_site

    experiment = RehearsedExperiment(
        recipe=recipe,
        bench=bench,
        read=read,
        prompts=experiment_prompts(recipe, bench),
        images=experiment_images(recipe, bench),
        open_site=lambda: rehearsal_site(keep=False, notify=context.view.note),
        observer=_Observer(context),
    )
    report = experiment.run()
    written = show_report(report, context, files) if report.points else ()
    context.view.note(NOTE)

    def require_all() -> None:
        if experiment.failed:
            raise DeployFailed(
                f"{counted(len(experiment.failed), 'cell or deployment', 'cells or deployments')} failed the rehearsal",
                hint="correct the recipe and rehearse it again; nothing was paid for",
                details=experiment.failed,
            )

    show_conclusion(report, context, written, require_all)


def _run(
    plan: ExperimentPlan, folder: ResultsFolder, context: CommandContext, *, most: float | None
) -> tuple[Outcome, Report]:
    from lmi_deploy.bench.experiment import Experiment, experiment_report

    outcome = Experiment(plan, folder, context.deps, _Observer(context), most=most).run()
    return outcome, experiment_report(plan, folder, outcome)


def _agree(
    plan: ExperimentPlan, folder: ResultsFolder, context: CommandContext, *, yes: bool, most: float | None
) -> None:
    """What will be done, how long it may take and what it may cost, before anything is deployed."""
    from lmi_deploy.bench.experiment import pending

    waiting = [(stay, len(pending(plan, stay, folder))) for stay in plan.stays]
    cells, all_cells = sum(count for _, count in waiting), sum(len(stay.cells) for stay in plan.stays)
    if not cells:
        context.view.note(f"{counted(all_cells, 'cell')}: all are measured already, in {folder.path}")
        return
    used = {stay.number: plan.deployments[stay.number] for stay, count in waiting if count}
    billed = [one for one in used.values() if one.billed]
    unknown = [one.label for one in billed if one.hourly is None or one.job_hourly is None]
    cost = sum(plan.cost(stay, count) for stay, count in waiting)
    for one in used.values():
        price = f", {one.hourly:.2f} {one.currency} an hour" if one.hourly else ""
        context.view.note(f"  {one.label}: {counted(len(one.cells), 'cell')}, as {one.recipe.name}{price}")
        for notice in (*one.deployment.notices, *one.notices):
            context.view.note(f"    {notice}")
    stays = sum(1 for _, count in waiting if count)
    context.view.note(
        f"{cells} of {counted(all_cells, 'cell')} in {counted(stays, 'deployment')}, one after the other; measuring "
        f"takes at most {seconds_text(plan.seconds(cells))}"
    )
    if plan.by_job is not None:
        machines = counted(plan.by_job.instances, "machine")
        context.view.note(f"the load of each cell is sent by a job of {machines}, which is in the cost")
    if billed:
        priced = f"at most about {cost:.2f} {billed[0].currency}, if each deployment starts within 10 minutes"
        context.view.note(f"price unknown: {', '.join(unknown)}" if unknown else f"cost: {priced}")
    _require_affordable(cost, unknown, most)
    confirm("Go ahead?", yes=yes, free=not billed)


def _require_affordable(cost: float, unknown: Sequence[str], most: float | None) -> None:
    if most is None:
        return
    if unknown:
        raise Refused(
            f"--max-cost {most:g}: the price of {', '.join(unknown)} is unknown",
            hint="run `lmi catalog refresh`, or omit --max-cost; nothing was changed",
        )
    if cost > most:
        raise Refused(
            f"--max-cost {most:g}: the experiment may cost {cost:.2f}",
            hint="shorten bench.duration, measure fewer cells, or allow more; nothing was changed",
        )


class _Observer:
    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self.watch = LiveProgress(context.view.show)

    def events(self, events: Iterable[Event]) -> None:
        self._context.run(events)

    def note(self, text: str) -> None:
        self._context.view.note(text)

    def measured(self, measured: MeasuredLoad) -> None:
        self._context.view.close()
        show_measured(measured, self._context)


def _require_complete(outcome: Outcome) -> None:
    if outcome.left:
        raise DeployFailed(
            f"{counted(len(outcome.left), 'deployment')} not deleted",
            hint="run these commands, or the same command again",
            details=outcome.left,
        )
    if outcome.interrupted:
        raise Interrupted("interrupted: all deployments of the experiment are deleted", hint=_AGAIN)
    if outcome.unwritten:
        hint = f"free space there, and {_AGAIN}: finished cells are kept"
        raise UsageRefused(outcome.unwritten, hint=hint, details=outcome.failed)
    if outcome.stopped:
        raise Refused(outcome.stopped, hint=f"allow more, and {_AGAIN}", details=outcome.failed)
    if outcome.failed:
        raise DeployFailed(
            f"{counted(len(outcome.failed), 'cell or deployment', 'cells or deployments')} failed",
            hint=f"correct the cause, and {_AGAIN}",
            details=outcome.failed,
        )


def declares_experiment(name: str) -> bool:
    """Whether this argument is a recipe with `bench`."""
    if not name.endswith(RECIPE_SUFFIXES):
        return False
    try:
        lines = Path(name).read_bytes()[:1_048_576].splitlines()
    except OSError:
        return False
    return any(line.startswith(b"bench:") for line in lines)
