"""An experiment on rehearsals: every deployment once, at a small scale, and what fails stops no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lmi_deploy.api.experiment_recipes import VariantRecipes
from lmi_deploy.api.recipe_loading import read_recipe
from lmi_deploy.bench.rehearsed_experiment import NOTE, REQUESTS, RehearsedExperiment, small_scale
from lmi_deploy.bench.report_layouts import layout_tables
from lmi_deploy.domain.recipe_bench_keys import Bench
from lmi_deploy.errors import DeployFailed
from lmi_deploy.ports.rehearsal import RehearsalSite
from lmi_deploy.workflows.dependencies import Dependencies
from tests.functional.test_published_experiments import Quiet
from tests.functional.test_rehearsal import FolderSite
from tests.support.local_app import RECIPE, LocalApp

EXPERIMENT = """\
overlays:
  other: {options: {dtype: fp32}}
bench:
  variants: {plain: {}, other: other}
  baseline: plain
  layout: sweep
  matrix: {concurrency: [1, 2, 4]}
  requests: 500
  repeats: 3
  duration: 10m
  objectives: {p99_ms: 5}
"""


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalApp:
    monkeypatch.chdir(tmp_path)
    return LocalApp(tmp_path)


def experiment(app: LocalApp, fails_at: int = 0) -> RehearsedExperiment:
    file = app.root / "tiny.yaml"
    file.write_text(RECIPE + EXPERIMENT)
    recipe = read_recipe(str(file), overlay=None, sets=())
    assert recipe.bench
    opened: list[Path] = []

    @contextmanager
    def open_site() -> Iterator[tuple[RehearsalSite, Dependencies, Callable[[], Dependencies]]]:
        opened.append(app.root / f"site-{len(opened)}")
        if len(opened) == fails_at:
            raise DeployFailed("no room", details=["a last line"])
        deps = app.deps()
        yield FolderSite(opened[-1]), deps, lambda: deps

    return RehearsedExperiment(
        recipe=recipe,
        bench=recipe.bench,
        read=VariantRecipes(recipe, None, ()),
        prompts=(),
        images=(),
        open_site=open_site,
        observer=Quiet(),
    )


def test_each_variant_is_deployed_once_with_a_few_requests_and_the_table_is_the_experiments(
    app: LocalApp,
) -> None:
    report = experiment(app).run()
    (table,) = layout_tables(report)
    assert table.columns[:6] == ("variant", "c", "QPS", "max", "min", "mean")
    assert [row[:2] for row in table.rows] == [
        *(("plain", "1"), ("plain", "2")),
        *(("other", "1"), ("other", "2")),
    ]
    assert [point.counts.sent for point in report.points] == [REQUESTS] * 4
    assert report.notes == (NOTE,)
    assert not app.observed().exists


def test_variant_that_fails_does_not_stop_the_other(app: LocalApp) -> None:
    failing = experiment(app, fails_at=1)
    report = failing.run()
    assert failing.failed == ["plain: no room"]
    assert {point.factors["variant"] for point in report.points} == {"other"}
    assert "failed: plain: no room" in report.notes


def test_scale_keeps_the_deployments_and_ends_soon() -> None:
    matrix = (("concurrency", ("1", "2", "3")), ("options.dtype", ("a", "b", "c")))
    small = small_scale(Bench(matrix=matrix, repeats=5, duration=600, via="job", instances=4))
    assert small.matrix == (("concurrency", ("1", "2")), ("options.dtype", ("a", "b", "c")))
    assert (small.repeats, small.requests, small.via, small.instances) == (1, REQUESTS, "here", None)
    assert small.duration <= 20
    assert small_scale(Bench(concurrency=16)).requests == 16
    assert small_scale(Bench(ramp_to=8, concurrency=1, duration=100)).requests is None
