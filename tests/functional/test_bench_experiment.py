"""`lmi bench RECIPE`: each variant is deployed, measured and deleted, whatever happens in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from lmi_deploy.api.recipe_loading import read_recipe
from lmi_deploy.bench.experiment import Experiment
from lmi_deploy.bench.experiment_plan import ExperimentPlan, ExperimentPlanner
from lmi_deploy.bench.experiment_results import ResultsFolder
from lmi_deploy.bench.report import Report
from lmi_deploy.bench.report_file import from_json
from lmi_deploy.bench.run_limits import RunProgress
from lmi_deploy.bench.run_sequence import MeasuredLoad
from lmi_deploy.domain.events import Event
from lmi_deploy.domain.recipe_keys import Recipe
from tests.support.fake_servers import Behaviour, FakeResponse, chat
from tests.support.local_app import RECIPE, LocalApp

BENCH = """\
overlays:
  wide: {options: {max_rolling_batch_size: 8}}
bench:
  variants: {plain: {}, wide: wide}
  baseline: plain
  layout: sweep
  matrix: {concurrency: [1, 2]}
  requests: 20
  warmup: 0
  duration: 10
"""
ONE_EACH = BENCH.replace("concurrency: [1, 2]", "concurrency: [1]")
"""A cell per variant: each takes more than a second, because the client is tested before it."""
RESULTS = Path("bench-tiny")


def write(bench: str = BENCH) -> None:
    Path("e.yaml").write_text(RECIPE + bench)


def report() -> Report:
    path = RESULTS / "report.json"
    return from_json(path.read_text(encoding="utf-8"), str(path))


def cells() -> list[str]:
    return sorted(path.name for path in (RESULTS / "cells").iterdir())


def deployments(app: LocalApp) -> list[str]:
    return sorted(ref.name for ref in app.deps().targets["local"].list_known())


def test_disk_that_is_full_ends_the_experiment_and_keeps_its_numbers(app: LocalApp) -> None:
    write(ONE_EACH)
    assert app.lmi("bench", "e.yaml", "--yes").code == 0
    names = cells()
    for name in names:
        (RESULTS / "cells" / name).unlink()
        (RESULTS / "cells" / f".{name}.part").symlink_to("/dev/full")
    ran = app.lmi("bench", "e.yaml", "--yes")
    assert (ran.code, "No space left on device" in ran.err) == (2, True), ran.err
    assert "finished cells are kept" in ran.err
    assert [point.counts.succeeded for point in report().points] == [
        20
    ]  # it was measured, and no other began
    assert deployments(app) == []
    for name in names:
        (RESULTS / "cells" / f".{name}.part").unlink()
    (RESULTS / ".report.json.part").symlink_to("/dev/full")
    lost = app.lmi("bench", "e.yaml", "--yes")
    assert (lost.code, "report.json: No space left on device" in lost.err) == (2, True), lost.err
    assert "variant" in lost.out
    (RESULTS / ".report.json.part").unlink()
    assert app.lmi("bench", "e.yaml", "--yes").code == 0
    assert [point.counts.succeeded for point in report().points] == [20] * 2


def test_each_variant_is_deployed_measured_and_deleted(app: LocalApp) -> None:
    write()
    ran = app.lmi("bench", "e.yaml", "--yes", "--markdown", "r.md")
    assert ran.code == 0, ran.err
    found = report()
    assert [point.name for point in found.points] == [
        "plain, concurrency=1",
        "plain, concurrency=2",
        "wide, concurrency=1",
        "wide, concurrency=2",
    ]
    assert [point.counts.succeeded for point in found.points] == [20] * 4
    assert found.points[3].settings["max_rolling_batch_size"] == "8"
    assert (found.layout, found.baseline) == ("sweep", "plain")
    assert deployments(app) == []
    assert len({*app.released}) == 2
    text = Path("r.md").read_text()
    assert "| variant | c | QPS | max | min | mean |" in text
    assert "against plain under the same load" in text


def test_folder_in_which_another_process_measures_is_refused_and_nothing_is_deployed(app: LocalApp) -> None:
    write(ONE_EACH)
    holder = "import sys; from pathlib import Path; from lmi_deploy.bench.experiment_results import ResultsFolder\n"
    holder += (
        f"with ResultsFolder(Path({str(RESULTS)!r})).hold(): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        ran = app.lmi("bench", "e.yaml", "--yes")
        other.kill()
    assert ran.code == 5
    assert f"bench-tiny: another `lmi bench` (process {other.pid}) measures into this folder" in ran.err
    assert (cells(), app.released) == ([], [])
    assert app.lmi("bench", "e.yaml", "--yes").code == 0  # the lock of a killed process is free


def test_second_run_measures_only_what_is_missing(app: LocalApp) -> None:
    write(ONE_EACH)
    assert app.lmi("bench", "e.yaml", "--yes").code == 0
    before, started = cells(), len(app.released)
    again = app.lmi("bench", "e.yaml")  # nothing to confirm
    assert again.code == 0, again.err
    assert "2 cells: all are measured already" in again.err
    (RESULTS / "cells" / before[0]).unlink()
    assert app.lmi("bench", "e.yaml", "--yes").code == 0
    assert cells() == before
    assert len(app.released) == started + 1


def test_changed_variant_is_measured_again_and_the_other_is_not(app: LocalApp) -> None:
    write(ONE_EACH)
    assert app.lmi("bench", "e.yaml", "--yes").code == 0
    started = len(app.released)
    write(ONE_EACH.replace("max_rolling_batch_size: 8", "max_rolling_batch_size: 4"))
    assert app.lmi("bench", "e.yaml", "--yes").code == 0
    assert len(app.released) == started + 1
    assert report().points[1].settings["max_rolling_batch_size"] == "4"


def test_running_deployment_of_the_recipe_is_not_touched(app: LocalApp) -> None:
    write(ONE_EACH)
    assert app.lmi("up", "e.yaml", "--yes").code == 0
    before = app.observed()
    assert app.lmi("bench", "e.yaml", "--yes").code == 0
    assert deployments(app) == ["tiny"]
    assert app.observed() == before


def test_other_cells_are_measured_if_one_fails(app: LocalApp) -> None:
    write(ONE_EACH.replace("wide: wide", "wide: wide, broken: {set: {probe.expect: never}}"))
    ran = app.lmi("bench", "e.yaml", "--yes")
    assert ran.code == 1
    assert "broken: " in ran.err
    assert "1 cell or deployment failed" in ran.err
    assert len(report().points) == 2
    assert any(note.startswith("not measured") and "broken" in note for note in report().notes)
    assert deployments(app) == []


def interrupting(request: int) -> Callable[[dict[str, Any]], FakeResponse]:
    """Ctrl-C once a server has had that many requests."""
    requests = count(1)

    def answer(body: dict[str, Any]) -> FakeResponse:
        if next(requests) == request:
            os.kill(os.getpid(), signal.SIGINT)
        return chat(body)

    return answer


def test_interrupt_deletes_what_runs_and_the_next_run_continues(app: LocalApp) -> None:
    write(ONE_EACH.replace("requests: 20", "requests: 1000000"))
    app.servers.next.append(Behaviour(answer=interrupting(request=50)))
    ran = app.lmi("bench", "e.yaml", "--yes")
    assert ran.code == 130, ran.err
    assert "all deployments of the experiment are deleted" in ran.err
    assert deployments(app) == []
    assert report().interrupted
    assert len(cells()) == 0


def test_repeats_are_pooled_in_a_seeded_order(app: LocalApp) -> None:
    write(ONE_EACH.replace("layout: sweep", "layout: sweep\n  repeats: 2\n  seed: 3"))
    assert app.lmi("bench", "e.yaml", "--yes").code == 0
    assert [point.counts.sent for point in report().points] == [40] * 2
    assert len(app.released) == 4
    assert report().points[0].rates["requests_per_s"].interval


@pytest.mark.parametrize(
    ("bench", "words"),
    [
        ("bench: {baseline: new}", "bench.baseline: new is no value of a factor"),
        ("bench: {matrix: {concurrency: [1], rate: [1]}}", "concurrency and rate cannot be combined"),
        ("bench: {matrix: {concurrency: [0]}}", "concurrency: 0 is not a whole number"),
        ("bench: {exact: true}", "bench.exact: needs a length"),
        ("bench: {variants: {a: none}}", "no such overlay"),
        ("bench: {variants: {a: none.yaml}}", "none.yaml: No such file"),
        ("bench: {variants: {a: {speed: 1}}}", "bench.variants.a.speed: unknown key"),
        ("bench: {matrix: {options.dtyp: [fp16]}}", "dtyp"),
        ("bench: {matrix: {concurrency: [1, 1]}}", "one value twice"),
        ("bench: {objectives: {p99: 1}}", "p99 is no objective"),
        ("bench: {prompt: a, body: b}", "prompt and body cannot be combined"),
        ("bench: {prompts: none.txt}", "none.txt: No such file"),
        ("bench: {batch: 2, prompt: a}", "no JSON body with `inputs`"),
        ("bench: {via: job}", "runs on this machine, and no machine in AWS reaches it"),
        ("bench: {rate: fast}", "bench.rate: 'fast' is not a number"),
    ],
)
def test_bad_experiment_is_refused_before_anything_is_deployed(app: LocalApp, bench: str, words: str) -> None:
    write(bench + "\n")
    ran = app.lmi("bench", "e.yaml", "--yes")
    assert ran.code == 2, ran.err
    assert words in ran.err
    assert app.released == []
    if "batch" not in bench:  # which is known only with the deployment's probe
        validated = app.lmi("validate", "e.yaml")
        assert (validated.code, words in validated.err + validated.out) == (2, True)


def test_recipe_without_experiment_is_its_deployment(app: LocalApp) -> None:
    assert app.lmi("up", "--yes").code == 0
    name = next(path.name for path in Path().glob("*.yaml"))
    assert app.lmi("bench", name, "--requests", "5", "--warmup", "0").code == 0
    ran = app.lmi("bench", "experiment", name)
    assert ran.code == 2
    assert "it has no key bench" in ran.err


class Slow:
    """Each deployment takes two hours to start."""

    def __init__(self, app: LocalApp) -> None:
        self._app = app
        self.notes: list[str] = []

    def watch(self, progress: RunProgress) -> None:
        pass

    def events(self, events: Iterable[Event]) -> None:
        self._app.clock.sleep(7200)
        for _ in events:
            pass

    def note(self, text: str) -> None:
        self.notes.append(text)

    def measured(self, measured: MeasuredLoad) -> None:
        pass


class Impatient(Slow):
    """Ctrl-C while the first deployment starts."""

    def __init__(self, app: LocalApp) -> None:
        super().__init__(app)
        self._calls = 0

    def events(self, events: Iterable[Event]) -> None:
        self._calls += 1
        for number, _ in enumerate(events):
            if self._calls == 1 and number == 3:
                assert isinstance(events, Generator)
                events.throw(KeyboardInterrupt())  # as the context of a command does


def plan_of(app: LocalApp, folder: ResultsFolder) -> ExperimentPlan:
    recipe = read_recipe("e.yaml", overlay=None, sets=())
    assert recipe.bench

    def read(path: str, overlay: str | None, sets: Sequence[str]) -> Recipe:
        return read_recipe("e.yaml", overlay=overlay, sets=sets)

    planner = ExperimentPlanner(
        recipe=recipe, bench=recipe.bench, read=read, prompts=(), token=folder.token, deps=app.deps()
    )
    return planner.plan()


def test_interrupt_while_a_deployment_starts_deletes_it(app: LocalApp) -> None:
    write()
    folder = ResultsFolder(RESULTS)
    plan = plan_of(app, folder)
    outcome = Experiment(plan, folder, app.deps(), Impatient(app)).run()
    assert (outcome.interrupted, outcome.left) == (True, [])
    assert deployments(app) == []
    assert all(one.recipe.ttl for one in plan.deployments)


def test_experiment_ends_before_it_costs_more_than_its_limit(app: LocalApp) -> None:
    """With prices of this machine made up: two hours of 10 dollars each are above the limit, so no cell is measured."""
    write()
    folder = ResultsFolder(RESULTS)
    plan = plan_of(app, folder)
    plan = replace(plan, deployments=tuple(replace(one, hourly=10.0) for one in plan.deployments))
    outcome = Experiment(plan, folder, app.deps(), Slow(app), most=15).run()
    assert "--max-cost 15: 0.00 are spent, and the next step may cost 20.1" in outcome.stopped
    assert outcome.spent >= 20
    assert cells() == []
    assert deployments(app) == []


def test_deployment_that_a_killed_run_left_is_deleted(app: LocalApp) -> None:
    write(ONE_EACH)
    assert app.lmi("bench", "e.yaml", "--yes").code == 0
    left = app.released[0]
    Path("left.yaml").write_text(RECIPE.replace("name: tiny", f"name: {left}"))
    assert app.lmi("up", "left.yaml", "--yes").code == 0
    assert deployments(app) == [left]
    assert app.lmi("bench", "e.yaml").code == 0
    assert deployments(app) == []
