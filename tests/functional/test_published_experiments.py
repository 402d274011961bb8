"""The five published experiments: their design is the published one, and a run prints the published table.

The runs are small, on this machine, with a stand-in for the model: their columns are checked, not their figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lmi_deploy.api.recipe_loading import read_recipe
from lmi_deploy.bench.experiment import Experiment, experiment_report
from lmi_deploy.bench.experiment_design import Cell, DesignedDeployment, design
from lmi_deploy.bench.experiment_plan import ExperimentPlanner
from lmi_deploy.bench.experiment_requests import cell_requests
from lmi_deploy.bench.experiment_results import ResultsFolder
from lmi_deploy.bench.prompt_files import BenchRequest
from lmi_deploy.bench.report import Report
from lmi_deploy.bench.report_layouts import layout_tables
from lmi_deploy.bench.report_tables import report_tables
from lmi_deploy.bench.run_limits import RunProgress
from lmi_deploy.bench.run_sequence import MeasuredLoad
from lmi_deploy.bench.synthetic_prompts import approximate_prompt
from lmi_deploy.bench.text_reports import to_csv, to_markdown
from lmi_deploy.catalog.package_files import recipes
from lmi_deploy.domain.events import Event
from lmi_deploy.domain.inference_http import ProbeSpec
from lmi_deploy.domain.recipe_bench_keys import Bench
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.errors import UsageRefused
from tests.support.local_app import LocalApp

PROBE = ProbeSpec(prompt="OK", body="", content_type="", expect="")


def requests_of(bench: Bench, cell: Cell, probe: ProbeSpec = PROBE) -> tuple[BenchRequest, ...]:
    """For a model without a tokenizer."""
    return cell_requests(
        bench, cell, (), probe=probe, synthetic=lambda shape: approximate_prompt(shape, "none").requests
    )


def published(name: str) -> tuple[Path, Bench]:
    path = recipes() / "published" / name / "recipe.yaml"
    bench = read_recipe(str(path), overlay=None, sets=()).bench
    assert bench is not None
    return path, bench


class Quiet:
    """An observer that shows nothing."""

    def watch(self, progress: RunProgress) -> None:
        pass

    def events(self, events: Iterable[Event]) -> None:
        for _ in events:
            pass

    def note(self, text: str) -> None:
        pass

    def measured(self, measured: MeasuredLoad) -> None:
        pass


def small(bench: Bench) -> Bench:
    """Two values of each factor, eight requests a cell."""
    rows = (
        bench.variants
        if len(bench.variants) < 5
        else (bench.variants[0], *bench.variants[4:6], bench.variants[9])
    )
    return replace(
        bench,
        variants=tuple(replace(one, recipe="", overlay="", sets=()) for one in rows),
        instance_types=(),
        matrix=tuple((name, values[:2]) for name, values in bench.matrix if name != "model_id"),
        requests=8,
        warmup=0,
        duration=20,
        rate=50.0 if bench.rate else None,
        concurrency=2 if bench.concurrency else None,
        body=bench.body or '{"inputs": "OK"}',
        prompt=None,
    )


def measured(app: LocalApp, name: str) -> Report:
    _, bench = published(name)

    def read(path: str, overlay: str | None, sets: Sequence[str]) -> Recipe:
        return read_recipe("tiny.yaml", overlay=None, sets=sets)

    folder = ResultsFolder(Path("results"))
    recipe = read("", None, ())
    planner = ExperimentPlanner(
        recipe=recipe, bench=small(bench), read=read, prompts=(), token=folder.token, deps=app.deps()
    )
    plan = planner.plan()
    outcome = Experiment(plan, folder, app.deps(), Quiet()).run()
    assert (outcome.failed, outcome.left) == ([], [])
    return experiment_report(plan, folder, outcome)


@pytest.mark.parametrize(
    ("name", "cells", "deployments"),
    [
        ("gpt2-tensorrt", 8, 2),
        ("flan-t5-fastertransformer", 1, 1),
        ("gpt-j-deepspeed", 64, 4),
        ("t5-triton-tensorrt", 12, 12),
        ("bert-inf1", 10, 10),
    ],
)
def test_design_is_the_published_one_and_each_variant_is_a_valid_recipe(
    name: str, cells: int, deployments: int
) -> None:
    path, bench = published(name)
    found = design(bench)
    assert (sum(len(one.cells) for one in found), len(found)) == (cells, deployments)
    for one in found:
        origin = str(path.parent / one.variant.recipe) if one.variant.recipe else str(path)
        read_recipe(origin, overlay=one.variant.overlay or None, sets=one.overrides)
        assert all(requests_of(bench, cell) for cell in one.cells if not cell.batch)


def instances(found: Iterable[DesignedDeployment]) -> set[object]:
    return {cell.factors["instance"] for one in found for cell in one.cells}


def test_lengths_of_the_gpt_j_experiment_are_in_its_requests() -> None:
    _, bench = published("gpt-j-deepspeed")
    found = design(bench)
    assert instances(found) == {"ml.g4dn.2xlarge", "ml.p3.2xlarge"}
    (request,) = requests_of(bench, found[0].cells[0])
    assert request.body is not None
    body = request.body.decode()
    assert body.count("the") == 50
    assert '"max_new_tokens": 50, "min_new_tokens": 50' in body


def test_batches_of_bert_and_flan_count_their_items() -> None:
    body = ProbeSpec(prompt="", body='{"inputs": "OK"}', content_type="application/json", expect="")
    _, bert = published("bert-inf1")
    batches = [requests_of(bert, one.cells[0], body)[0].items for one in design(bert)]
    assert batches == [1, 1, 1, 1, 1, 6, 6, 6, 6, 64]
    _, flan = published("flan-t5-fastertransformer")
    (tasks,) = requests_of(flan, design(flan)[0].cells[0], body)
    assert tasks.items == 4


def test_value_without_a_place_in_the_body_is_refused() -> None:
    bench = Bench(body='{"inputs": "OK"}', output_tokens=5)
    with pytest.raises(UsageRefused, match="output_tokens has no effect"):
        requests_of(bench, design(bench)[0].cells[0])


@pytest.fixture
def local(app: LocalApp) -> LocalApp:
    (recipe,) = Path().glob("*.yaml")
    recipe.rename("tiny.yaml")
    return app


def test_gpt2_sweep_has_the_published_columns(local: LocalApp) -> None:
    report = measured(local, "gpt2-tensorrt")
    (table,) = layout_tables(report)
    assert table.columns[:6] == ("variant", "c", "QPS", "max", "min", "mean")
    assert [row[:2] for row in table.rows] == [
        ("pytorch", "1"),
        ("pytorch", "2"),
        ("tensorrt", "1"),
        ("tensorrt", "2"),
    ]
    assert "x)" in table.rows[2][2]  # the ratio of its throughput to PyTorch's
    assert "%)" in table.rows[2][5]


def test_flan_row_has_the_published_percentiles(local: LocalApp) -> None:
    (table,) = layout_tables(measured(local, "flan-t5-fastertransformer"))
    heads = (
        "Model",
        "Engine",
        "dtype",
        "batch",
        "TP",
        "workers",
        "P50",
        "P90",
        "P99",
        "n",
        "items/s",
        "$/1M items",
    )
    assert table.columns == heads
    (row,) = table.rows
    assert (row[3], row[8]) == ("4", "UNDECIDED")  # eight requests have no P99
    assert table.notes


def test_gpt_j_factorial_has_cells_effect_and_reduction_by_length(local: LocalApp) -> None:
    report = measured(local, "gpt-j-deepspeed")
    titles = [table.title for table in layout_tables(report)]
    assert titles[1:4] == [
        "Effect against transformers",
        "Reduction of the latency by input_tokens",
        "Reduction of the latency by output_tokens",
    ]
    cells, effect, by_length = layout_tables(report)[:3]
    assert (len(cells.rows), effect.rows[0][-1]) == (8, "4")
    assert [row[1] for row in by_length.rows] == ["50", "200"]


def test_t5_grid_has_ratios_bound_and_objective_of_each_precision(local: LocalApp) -> None:
    (table,) = layout_tables(measured(local, "t5-triton-tensorrt"))
    assert table.columns[:4] == (
        "pytorch mean",
        "pytorch p99 bound",
        "pytorch objectives",
        "pytorch max rate",
    )
    assert {"trt-fp32 mean", "trt-fp16 mean"} <= {*table.columns}
    (row,) = table.rows
    assert row[4].endswith("x)")
    # The published table never reports the P99 of its objective: here a P99 without enough requests decides nothing.
    assert row[1] == "UNDECIDED"
    assert row[2] in ("UNDECIDED", "INVALID")


def test_bert_rows_are_compared_with_the_gpu_in_each_form(local: LocalApp) -> None:
    report = measured(local, "bert-inf1")
    (table,) = layout_tables(report)
    assert table.columns == (
        *(
            "instance",
            "batch",
            "layout",
            "cores",
            "items/s",
            "P95 s",
            "$/1M",
            "throughput ratio",
            "cost ratio",
        ),
        *("in flight", "price/h", "items/$"),
    )
    ratios = {(row[0], row[1]): row[7] for row in table.rows}
    assert ratios["ml.inf1.xlarge", "6"].endswith("x")
    assert ratios["ml.g4dn.xlarge", "64"] == "-"
    assert "| instance | batch |" in to_markdown(report, report_tables(report))
    assert to_csv(report).count("\n") == 5
