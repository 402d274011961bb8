"""Runs an experiment: each deployment is created, measured and deleted, whatever happens in between.

A cell that fails does not stop the others. What is finished is in the results folder, and is not measured again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol

from lmi_deploy.bench.deployed_load import measured_by_job, planned_load_job
from lmi_deploy.bench.deployment_target import DeployedTarget, deployed_target
from lmi_deploy.bench.experiment_design import Stay
from lmi_deploy.bench.experiment_plan import ExperimentPlan, PlannedCell, PlannedDeployment
from lmi_deploy.bench.experiment_results import ResultsFolder
from lmi_deploy.bench.load_generator import Watch
from lmi_deploy.bench.report import Report
from lmi_deploy.bench.report_points import judged, pooled
from lmi_deploy.bench.run_sequence import MeasuredLoad, Measurement, measure, provenance
from lmi_deploy.domain.events import Event
from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.errors import DeployFailed, Interrupted, LmiError, UsageRefused
from lmi_deploy.workflows import down, up
from lmi_deploy.workflows.dependencies import Dependencies


class Observer(Protocol):
    """What the user sees of a run. `events` carries the events out, and raises what they raise."""

    @property
    def watch(self) -> Watch: ...

    def events(self, events: Iterable[Event]) -> None: ...

    def note(self, text: str) -> None: ...

    def measured(self, measured: MeasuredLoad) -> None: ...


@dataclass(slots=True)
class Outcome:
    """How a run ended. `left`: what could not be deleted. `stopped`: why it ended before its last cell."""

    failed: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    stopped: str = ""
    interrupted: bool = False
    spent: float = 0.0
    unwritten: str = ""
    """Why a measured cell could not be written."""

    @property
    def has_ended(self) -> bool:
        """Before all cells were measured."""
        return self.interrupted or bool(self.stopped or self.unwritten)


class Experiment:
    """One run. `most` is the most it may cost."""

    def __init__(
        self,
        plan: ExperimentPlan,
        folder: ResultsFolder,
        deps: Dependencies,
        observer: Observer,
        *,
        most: float | None = None,
    ) -> None:
        self._plan, self._folder, self._deps, self._observer = plan, folder, deps, observer
        self._most = most
        self.outcome = Outcome()

    def run(self) -> Outcome:
        """Never raises for a cell. Ctrl-C deletes what runs, and ends it."""
        try:
            self._delete_leftovers()
            for stay in self._plan.stays:
                if self.outcome.has_ended:
                    break
                cells = self._pending(stay)
                if cells and self._is_affordable(self._plan.cost(stay, len(cells))):
                    self._run_stay(self._plan.deployments[stay.number], cells)
        except (Interrupted, KeyboardInterrupt):
            self.outcome.interrupted = True
        return self.outcome

    def _pending(self, stay: Stay) -> list[tuple[PlannedCell, int]]:
        return pending(self._plan, stay, self._folder)

    def _is_affordable(self, next_cost: float) -> bool:
        total = self.outcome.spent + next_cost
        if self._most is None or total <= self._most:
            return True
        self.outcome.stopped = (
            f"--max-cost {self._most:g}: {self.outcome.spent:.2f} are spent, and the next step may cost "
            f"{next_cost:.2f}"
        )
        return False

    def _delete_leftovers(self) -> None:
        """Of an interrupted run: deployments that have no cell to be measured any more."""
        waiting = {stay.number for stay in self._plan.stays if self._pending(stay)}
        for number, one in enumerate(self._plan.deployments):
            if number not in waiting and one.deployment.observed.record is not None:
                self._delete(one.deployment.ref)

    def _run_stay(self, one: PlannedDeployment, cells: Sequence[tuple[PlannedCell, int]]) -> None:
        began = self._deps.clock.monotonic()
        self._observer.note(f"{one.label}: {counted(len(cells), 'cell')} on {one.recipe.name}")
        try:
            deployment = up.prepare(one.recipe, self._deps)
            self._observer.events(up.execute(deployment, self._deps))
            target = deployed_target(deployment.ref, self._deps)
            for planned, turn in cells:
                elapsed = self._deps.clock.monotonic() - began
                if self.outcome.has_ended or not self._may_continue(one, elapsed):
                    break
                self._run_cell(planned, turn, target, deployment.ref)
        except Interrupted:
            self.outcome.interrupted = True
        except LmiError as error:
            self._failed(one.label, error)
        finally:
            self._delete(one.deployment.ref)
            self.outcome.spent += self._cost(one, self._deps.clock.monotonic() - began)

    def _may_continue(self, one: PlannedDeployment, elapsed: float) -> bool:
        """One cell more: the deployment is up, and may have taken longer than was assumed."""
        return self._is_affordable(self._cost(one, elapsed + self._plan.seconds(1)))

    def _cost(self, one: PlannedDeployment, seconds: float) -> float:
        return (one.hourly or 0.0) * seconds / 3600

    def _measure(self, measurement: Measurement, target: DeployedTarget, ref: DeploymentRef) -> Report:
        """Ctrl-C while a job sends the load raises, if nothing was measured yet."""
        watch, measured = self._observer.watch, self._observer.measured
        if self._plan.by_job is None:
            return measure(measurement, watch, measured)
        job = planned_load_job(ref, target, measurement, self._plan.by_job, self._deps)
        return measured_by_job(
            ref,
            job,
            self._deps,
            watch=watch,
            notify=measured,
            show=lambda event: self._observer.events([event]),
        )

    def _run_cell(self, planned: PlannedCell, turn: int, target: DeployedTarget, ref: DeploymentRef) -> None:
        name = planned.cell.name
        try:
            measurement = cell_measurement(self._plan, planned, turn, target)
            report = self._measure(measurement, target, ref)
        except Interrupted:
            raise
        except LmiError as error:
            self._failed(name, error)
            return
        if report.interrupted:
            self.outcome.interrupted = True
            return
        (point,) = report.points
        if not point.counts.succeeded:
            errors = ", ".join(sorted(point.counts.errors)) or "none was sent"
            self._failed(name, DeployFailed(f"no request succeeded: {errors}"))
            return
        point = replace(point, factors=dict(planned.cell.factors), name=name)
        try:
            self._folder.keep(planned.key, turn, replace(report, name=name, points=(point,)))
        except UsageRefused as error:
            # Each further cell would cost as much, and be lost as well.
            self.outcome.unwritten = error.message

    def _failed(self, name: str, error: LmiError) -> None:
        self.outcome.failed.append(f"{name}: {error.message}")
        self._observer.note(f"failed: {name}: {error.message}")
        for line in error.details:
            self._observer.note(f"  {line}")

    def _delete(self, ref: DeploymentRef) -> None:
        """An error is kept: it must not hide why the measurement ended."""
        try:
            teardown = down.prepare(ref, self._deps)
            self._observer.events(down.execute(teardown, self._deps))
        except KeyboardInterrupt:
            self._left(ref, "its deletion was interrupted")
            raise
        except Interrupted as error:
            self._left(ref, error.message)
            self.outcome.interrupted = True
        except LmiError as error:
            self._left(ref, error.message)
            self._observer.note(f"not deleted: {ref.name}: {error.message}")

    def _left(self, ref: DeploymentRef, why: str) -> None:
        self.outcome.left.append(f"{ref.name}: {why}; `{ref.command('down')}` deletes it")


def cell_measurement(
    plan: ExperimentPlan, planned: PlannedCell, turn: int, target: DeployedTarget
) -> Measurement:
    bench = plan.bench
    return Measurement(
        name=planned.cell.name,
        target=target.target,
        requests=planned.requests,
        form=planned.form,
        loads=(planned.cell.load,),
        limits=plan.limits,
        timeout=bench.timeout,
        objectives=plan.objectives,
        confidence=bench.confidence,
        seed=bench.seed + turn,
        billed=target.billed,
        settings=target.settings,
        details=target.details,
        server=target.server,
        environ=os.environ,
    )


def pending(plan: ExperimentPlan, stay: Stay, folder: ResultsFolder) -> list[tuple[PlannedCell, int]]:
    """The cells of a stay that have no result yet, with their repeat."""
    planned = plan.deployments[stay.number].cells
    found = [(planned[cell.name], turn) for cell, turn in stay.cells]
    return [(one, turn) for one, turn in found if not folder.has(one.key, turn)]


def experiment_report(plan: ExperimentPlan, folder: ResultsFolder, outcome: Outcome) -> Report:
    """Of all that was measured, by this run and those before it, in the order of the design."""
    points, missing = [], []
    for one in plan.deployments:
        for planned in one.cells.values():
            parts = [part.points[0] for part in folder.parts(planned.key, plan.bench.repeats)]
            if parts:
                point = pooled(parts, confidence=plan.bench.confidence)
                points.append(judged(point, plan.objectives, plan.bench.confidence))
            if len(parts) < plan.bench.repeats:
                missing.append(planned.cell.name)
    total = sum(len(one.cells) for one in plan.deployments)
    notes = [f"not measured, or not as often as asked for: {name}" for name in missing]
    notes += [f"failed: {line}" for line in outcome.failed]
    notes += [f"{one.label}: {notice}" for one in plan.deployments for notice in one.notices]
    return Report(
        name=plan.name,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        provenance=provenance(
            {
                "results": str(folder.path),
                "cells": f"{total - len(missing)} of {total}, {plan.bench.repeats} times each, {plan.bench.order}",
            }
        ),
        points=tuple(points),
        confidence=plan.bench.confidence,
        layout=plan.bench.layout,
        baseline=plan.bench.baseline or "",
        objectives=tuple(one.words for one in plan.objectives),
        seed=plan.bench.seed,
        interrupted=outcome.interrupted,
        notes=tuple(notes),
    )
