"""An experiment at a small scale, each deployment on a rehearsal of it: before any of them is paid for.

What it shows: every variant deploys, its requests are answered, and the report has its tables. No figure says anything
of the model or the instances: a stand-in answers, on this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from lmi_deploy.bench.deployment_target import deployed_target
from lmi_deploy.bench.experiment import Observer, cell_measurement
from lmi_deploy.bench.experiment_design import DesignedDeployment, design
from lmi_deploy.bench.experiment_plan import ExperimentPlan, ExperimentPlanner, ReadRecipe, run_limits
from lmi_deploy.bench.experiment_requests import ModelPrompts
from lmi_deploy.bench.objectives import objectives_of
from lmi_deploy.bench.prompt_files import BenchRequest
from lmi_deploy.bench.report import LoadPoint, Report
from lmi_deploy.bench.run_sequence import measure, provenance
from lmi_deploy.domain.inference_http import ImageFile
from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.recipe_bench_keys import WORKLOAD, Bench
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.errors import Interrupted, LmiError
from lmi_deploy.ports.rehearsal import RehearsalSite
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.deployment_plan import DeploymentPlan
from lmi_deploy.workflows.rehearse import OpenDependencies, Rehearsal

OpenSite = Callable[[], AbstractContextManager[tuple[RehearsalSite, Dependencies, OpenDependencies]]]
REQUESTS: Final = 4
_LEVELS: Final = 2
_MOST_SECONDS: Final = 20
NOTE: Final = (
    "a rehearsal: a stand-in model answered, on this machine; the tables are those of the experiment, and no figure "
    "says anything of the model, the instances or their cost"
)


def small_scale(bench: Bench) -> Bench:
    """The same deployments, with two values of each factor of the load and the requests, and a few requests a cell."""
    ramp = bench.ramp_to is not None
    requests = max(REQUESTS, bench.concurrency or 0)
    return replace(
        bench,
        matrix=tuple(
            (name, values[:_LEVELS] if name in WORKLOAD else values) for name, values in bench.matrix
        ),
        requests=None if ramp else requests,
        warmup=0,
        duration=min(bench.duration, 5 if ramp else _MOST_SECONDS),
        repeats=1,
        via="here",
        instances=None,
        job_instance_type=None,
        job_role=None,
        job_time_limit=None,
    )


@dataclass(slots=True, kw_only=True)
class RehearsedExperiment:
    """`open_site` opens the private place of one rehearsal; `observer` shows what happens."""

    recipe: Recipe
    bench: Bench
    read: ReadRecipe
    prompts: Sequence[BenchRequest]
    images: Sequence[ImageFile]
    open_site: OpenSite
    observer: Observer
    points: list[LoadPoint] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def run(self) -> Report:
        """Interrupted after Ctrl-C. A deployment that fails does not stop the others: `failed` has why."""
        bench = small_scale(self.bench)
        deployments = design(bench)
        cells = sum(len(one.cells) for one in deployments)
        self.observer.note(f"{counted(cells, 'cell')} on {counted(len(deployments), 'rehearsal')}; {NOTE}")
        for number, one in enumerate(deployments):
            self.observer.note(f"-- {number + 1} of {len(deployments)}: {one.label}")
            try:
                self._rehearse(one, bench)
            except Interrupted:
                raise
            except LmiError as error:
                self.failed.append(f"{one.label}: {error.message}")
                for line in (f"failed: {one.label}: {error.message}", *error.details):
                    self.observer.note(line)
        return self._report(bench)

    def _rehearse(self, one: DesignedDeployment, bench: Bench) -> None:
        variant = one.variant
        recipe = replace(self.read(variant.recipe, variant.overlay or None, one.overrides), bench=None)

        def measured(deployment: DeploymentPlan, deps: Dependencies) -> None:
            self._measure(one, bench, deployment, deps)

        with self.open_site() as (site, user, open_deps):
            self.observer.events(Rehearsal(recipe, user, site, open_deps, measure=measured).run())

    def _measure(
        self, one: DesignedDeployment, bench: Bench, deployment: DeploymentPlan, deps: Dependencies
    ) -> None:
        planner = ExperimentPlanner(
            recipe=self.recipe,
            bench=bench,
            read=self.read,
            prompts=self.prompts,
            token="",
            deps=deps,
            images=self.images,
        )
        plan = self._plan(bench)
        synthetic = ModelPrompts(bench, self.recipe, deployment.spec.model, deps)
        target = deployed_target(deployment.ref, deps)
        for cell in one.cells:
            planned = planner.cell(cell, deployment, "", synthetic)
            report = measure(
                cell_measurement(plan, planned, 0, target), self.observer.watch, self.observer.measured
            )
            if report.interrupted:
                raise Interrupted("interrupted", hint="nothing is left of the rehearsal")
            (point,) = report.points
            if not point.counts.succeeded:
                errors = ", ".join(sorted(point.counts.errors)) or "none was sent"
                self.failed.append(f"{cell.name}: no request succeeded: {errors}")
                continue
            self.points.append(replace(point, factors=dict(cell.factors), name=cell.name))

    def _plan(self, bench: Bench) -> ExperimentPlan:
        return ExperimentPlan(
            name=self.recipe.name,
            bench=bench,
            deployments=(),
            stays=(),
            objectives=objectives_of(bench.objectives),
            limits=run_limits(bench),
        )

    def _report(self, bench: Bench) -> Report:
        return Report(
            name=self.recipe.name,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            provenance=provenance({"deployed by": "a rehearsal, on this machine"}),
            points=tuple(self.points),
            confidence=bench.confidence,
            layout=bench.layout,
            baseline=bench.baseline or "",
            objectives=tuple(one.words for one in objectives_of(bench.objectives)),
            seed=bench.seed,
            notes=(NOTE, *(f"failed: {line}" for line in self.failed)),
        )
