"""Tables in the columns of the published experiments, and the other forms of a report."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from lmi_deploy.bench.comparison import compare, comparison_table
from lmi_deploy.bench.html_report import to_html
from lmi_deploy.bench.objectives import parse_objective, read_objective
from lmi_deploy.bench.report import BilledInstances, LoadPoint, Provenance, Report
from lmi_deploy.bench.report_plots import report_plots
from lmi_deploy.bench.report_points import point_of
from lmi_deploy.bench.report_tables import brief_tables, report_tables
from lmi_deploy.bench.table_cells import number
from lmi_deploy.bench.text_reports import headline, to_csv, to_junit, to_markdown
from lmi_deploy.domain.observed_state import Price
from lmi_deploy.domain.report_table import ReportTable
from lmi_deploy.ui.bench_text import table_lines
from tests.support.bench_runs import BEGAN, T4, closed_run, open_run

PROVENANCE = Provenance(tool="lmi 0.1.0", python="3.11", machine="test", cpus=2, clock="time.perf_counter")
OBJECTIVES = [parse_objective("mean_ms", 600), parse_objective("p99_ms", 900)]


def report(*points: LoadPoint, **changes: object) -> Report:
    return Report(name="a <b> & c", created=BEGAN, provenance=PROVENANCE, points=points, **changes)  # type: ignore[arg-type]


def table(made: Report, title: str) -> ReportTable:
    return next(one for one in report_tables(made) if one.title.startswith(title))


def by(one: ReportTable, column: str) -> list[str]:
    return [row[one.columns.index(column)] for row in one.rows]


@pytest.fixture(scope="module")
def sweep() -> Report:
    """The GPT-2 experiment: PyTorch and TensorRT at concurrency 1 to 4, saturated by the first client."""
    points = [
        point_of(
            closed_run(
                base * c,
                concurrency=c,
                requests=500,
                factors={"variant": variant, "concurrency": c},
                billed=replace(T4, count=1),
            ),
            objectives=OBJECTIVES,
        )
        for variant, base in (("torch", 0.417), ("trt", 0.143))
        for c in (1, 2, 3, 4)
    ]
    words = tuple(one.words for one in OBJECTIVES)
    return report(*points, layout="sweep", baseline="torch", objectives=words)


@pytest.fixture(scope="module")
def factorial() -> Report:
    """The GPT-J experiment: DeepSpeed halves what a token takes, and saves less the longer the input is."""

    def seconds(variant: str, inputs: int, outputs: int) -> float:
        return outputs * (0.08 if variant == "hf" else 0.04) + inputs * 0.002

    points = [
        point_of(
            closed_run(
                lambda n, v=variant, i=inputs, o=outputs: seconds(v, i, o) * (1 + (n % 5 - 2) / 100),  # type: ignore[misc]
                requests=20,
                tokens=outputs,
                factors={
                    "variant": variant,
                    "instance": instance,
                    "input_tokens": inputs,
                    "output_tokens": outputs,
                },
            )
        )
        for variant in ("hf", "deepspeed")
        for instance in ("ml.g4dn.2xlarge", "ml.p3.2xlarge")
        for inputs in (50, 200, 500, 1000)
        for outputs in (50, 100, 150, 200)
    ]
    return report(*points, layout="factorial", baseline="hf")


def test_sweep_has_qps_max_min_and_mean_beside_the_baseline(sweep: Report) -> None:
    found = table(sweep, "Sweep")
    assert found.columns[:6] == ("variant", "c", "QPS", "max", "min", "mean")
    trt = dict(zip(found.columns, found.rows[5], strict=True))
    assert (trt["variant"], trt["c"], trt["QPS"]) == ("trt", "2", "6.99 (2.92x)")
    assert (trt["mean"], trt["QPS x mean"]) == ("286.0 (-65.7 %)", "2.00")
    assert by(found, "objectives") == ["PASS", "FAIL", "FAIL", "FAIL", "PASS", "PASS", "PASS", "PASS"]
    consistency = table(sweep, "Consistency")
    assert all("saturated at concurrency 1" in text for text in by(consistency, "what"))
    assert len(consistency.rows) == 2


def test_percentile_row_names_the_settings_and_the_number_of_requests() -> None:
    settings = {"model": "flan-t5-xxl", "engine": "fastertransformer", "dtype": "fp32", "batch": 4}
    run = closed_run(0.32739, requests=298, billed=replace(T4, count=1))
    run = replace(
        run,
        settings=replace(run.settings, settings={**settings, "tensor_parallel_degree": 4}),
        records=tuple(replace(one, items=4) for one in run.records),
    )
    found = table(report(point_of(run), layout="percentiles"), "Percentiles")
    row = dict(zip(found.columns, found.rows[0], strict=True))
    assert [row[name] for name in ("Model", "Engine", "dtype", "batch", "TP")] == [
        *("flan-t5-xxl", "fastertransformer", "fp32", "4", "4")
    ]
    assert (row["P50"], row["P99"], row["n"], row["items/s"]) == ("327.4", "UNDECIDED", "298", "12.22")
    assert row["$/1M items"] == "$16.7"
    assert found.notes == ("p99 takes 299 requests; the smallest point has 298",)


def test_factorial_has_64_cells_deviations_and_the_reduction_by_input_length(factorial: Report) -> None:
    cells = table(factorial, "Cells")
    assert len(cells.rows) == 64
    assert re.fullmatch(r"12\.20 \(0\.1\d+\)", by(cells, "tokens/s (SD)")[0])
    effect = table(factorial, "Effect against hf")
    assert by(effect, "instance") == ["ml.g4dn.2xlarge", "ml.p3.2xlarge"]
    assert all(re.fullmatch(r"-\d\d\.\d % \(\d\.\d+ points\)", cell) for cell in by(effect, "latency (SD)"))
    by_input = table(factorial, "Reduction of the latency by input_tokens")
    reductions = [float(cell.rstrip(" %")) for cell in by(by_input, "mean")[:4]]
    assert reductions == sorted(reductions, reverse=True)
    assert reductions[0] == pytest.approx(49.4, abs=0.1)
    heat = table(factorial, "Reduction of the latency, ml.g4dn.2xlarge, deepspeed")
    assert (heat.columns, len(heat.rows)) == (("input_tokens", "50", "100", "150", "200"), 4)


def test_grid_has_ratios_and_an_upper_bound_of_the_p99() -> None:
    """The T5 experiment: 300 requests have a P99 bound, 200 do not."""
    points = [
        point_of(
            closed_run(
                seconds, requests=300 if model == "t5-small" else 200, factors={"variant": v, "model": model}
            ),
            objectives=[parse_objective("p99_ms", 50)],
        )
        for model in ("t5-small", "t5-base")
        for v, seconds in (("pytorch", 0.0307), ("trt-fp16", 0.00591))
    ]
    found = table(report(*points, layout="grid", baseline="pytorch"), "Variants")
    assert by(found, "model") == ["t5-small", "t5-base"]
    assert by(found, "trt-fp16 mean") == ["5.910 (5.19x)"] * 2
    assert by(found, "trt-fp16 p99 bound") == ["5.910", "UNDECIDED"]
    assert by(found, "trt-fp16 objectives") == ["PASS", "UNDECIDED"]
    assert by(found, "trt-fp16 max rate") == ["169", "-"]


def test_cost_table_has_ratios_of_unrounded_figures() -> None:
    """The BERT experiment, as measured under one load."""

    def row(instance: str, seconds: float, hourly: float, batch: int) -> LoadPoint:
        price = Price(hourly=hourly, currency="USD", source="the article", date="2021-11")
        billed = BilledInstances(instance=instance, price=price)
        factors = {"instance": instance, "batch": batch}
        run = closed_run(seconds, concurrency=4, requests=400, billed=billed, factors=factors)
        return point_of(replace(run, records=tuple(replace(one, items=batch) for one in run.records)))

    points = [row("g4dn.xlarge", 4 / 149, 0.526, 1), row("inf1.xlarge", 4 / 291, 0.368, 1)]
    found = table(report(*points, layout="cost", baseline="g4dn.xlarge"), "Throughput")
    assert by(found, "$/1M") == ["$0.981", "$0.351"]
    assert by(found, "throughput ratio") == ["-", "1.95x"]
    assert by(found, "cost ratio") == ["-", "36%"]
    assert by(found, "in flight") == ["4.00", "4.00"]


def test_cost_within_the_objectives_is_that_of_the_highest_rate_that_meets_them(sweep: Report) -> None:
    notes = table(sweep, "Cost of a million").notes
    assert any(note.startswith("within the objectives: $29.3 per million requests") for note in notes)
    assert "trt: invocations_per_instance: 209" in notes


def test_figures_of_cloudwatch_are_beside_ours() -> None:
    point = replace(point_of(closed_run()), cloudwatch={"ModelLatency p50 ms": 93.1})
    found = table(report(point, point_of(closed_run())), "Measured by SageMaker")
    assert by(found, "ModelLatency p50 ms") == ["93.10", "-"]


def test_compared_rows_under_different_loads_are_called_so() -> None:
    points = [
        point_of(closed_run(0.0082, concurrency=1, requests=400, factors={"instance": "g4dn.xlarge"})),
        point_of(closed_run(0.0166, concurrency=16, requests=400, factors={"instance": "inf1.6xlarge"})),
    ]
    consistency = table(report(*points, layout="cost", baseline="g4dn.xlarge"), "Consistency")
    assert by(consistency, "check") == ["same_load"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0123456, "0.01235"),
        (12.3456, "12.35"),
        (1171.6, "1,172"),
        (123456, "123,456"),
        (0, "0"),
        (None, "-"),
    ],
)
def test_numbers_have_four_digits_and_no_exponent(value: float | None, text: str) -> None:
    assert number(value) == text


def test_terminal_tables_are_aligned_and_short_for_many_points(sweep: Report, factorial: Report) -> None:
    lines = [*table_lines(brief_tables(sweep))]
    heads = next(line for line in lines if "QPS x mean" in line)
    row = lines[lines.index(heads) + 1]
    assert heads.index("QPS x mean") + len("QPS x mean") == row.index("1.00 ") + 4
    assert len([*table_lines(brief_tables(factorial))]) < 60


def test_headline_says_the_worst_first(sweep: Report) -> None:
    assert headline(sweep) == "FAIL: mean_ms <= 600, p99_ms <= 900 (8 points, 4,000 requests)"
    broken = replace(sweep.points[1], checks=(replace(sweep.points[1].checks[0], state="invalid"),))
    assert headline(replace(sweep, points=(sweep.points[0], broken))).startswith(
        "INVALID: torch, concurrency=2"
    )
    assert headline(replace(sweep, points=(), interrupted=True)).endswith("; interrupted before its end")


def test_markdown_has_each_table_and_escapes_its_cells(sweep: Report) -> None:
    made = replace(sweep, notes=("a|b",))
    tables = [*report_tables(made), ReportTable(title="x", columns=("a",), rows=(("1|2",),))]
    text = to_markdown(made, tables)
    assert text.count("\n## ") == len(tables)
    assert "| 1\\|2 |" in text


def test_csv_has_a_line_a_point_and_empty_cells_for_the_undecided() -> None:
    points = [point_of(closed_run(0.1, requests=n, factors={"n": n})) for n in (20, 400)]
    rows = [*csv.DictReader(io.StringIO(to_csv(report(*points))))]
    assert [row["e2e.p99"] == "" for row in rows] == [True, False]
    assert [row["factor.n"] for row in rows] == ["20", "400"]
    assert float(rows[1]["e2e.mean"]) == pytest.approx(0.1)


def test_junit_has_a_case_for_each_objective(sweep: Report) -> None:
    broken = point_of(
        replace(closed_run(), client=replace(closed_run().client, cpu=1.0)), objectives=OBJECTIVES
    )
    root = ElementTree.fromstring(to_junit(replace(sweep, points=(*sweep.points[:2], broken))))
    suites = [*root]
    assert [suite.get("failures") for suite in suites] == ["0", "1", "0"]
    assert [suite.get("errors") for suite in suites] == ["0", "0", "1"]
    assert [suite.get("skipped") for suite in suites] == ["0", "0", "2"]


class Page(HTMLParser):
    """Tags that are open, and everything that could load a resource or run."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "link", "img", "iframe", "object", "embed", "base"):
            self.loads.append(tag)
        self.loads += [
            name
            for name, value in attrs
            if name in ("src", "href", "srcset", "style") or name.startswith("on")
        ]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag != "meta":
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_page_is_well_formed_and_loads_nothing(sweep: Report, factorial: Report) -> None:
    streams = report(*(point_of(open_run(rate, requests=400, tokens=5)) for rate in (10, 20)))
    empty = report(point_of(replace(closed_run(), records=())))
    for made in (sweep, factorial, streams, empty):
        text = to_html(made, report_tables(made), [*map(read_objective, made.objectives)])
        page = Page()
        page.feed(text)
        assert page.open == []
        assert page.loads == []
        assert "url(" not in text
        assert "@import" not in text
        assert "nan" not in re.findall(r'"([^"]*)"', text)
        assert "a <b> & c" in page.texts


def test_page_has_the_five_plots(sweep: Report, factorial: Report) -> None:
    texts = to_html(sweep, report_tables(sweep), OBJECTIVES) + to_html(factorial, (), ())
    for title in (
        *("Latency against load", "Distribution: end-to-end latency", "Distribution: time to first token"),
        *("Cost against objective", "Time line: torch, concurrency=1", "Mean latency, hf, ml.g4dn.2xlarge"),
    ):
        assert f"<figcaption>{title}" in texts


def test_comparison_of_an_invalid_point_concludes_nothing() -> None:
    good = report(point_of(closed_run(0.1, requests=400)))
    run = closed_run(0.5, requests=400)
    bad = report(point_of(replace(run, client=replace(run.client, cpu=0.99))))
    found = compare(good, bad, names=("a", "b"))
    assert {change.direction for change in found.changes} == {"not comparable"}
    assert {one.judgement for one in found.verdicts(0.05, ())} == {"UNDECIDED"}
    assert by(comparison_table(found), "conclusion") == ["not comparable"] * len(found.changes)


def test_gaps_of_the_same_stream_are_not_independent() -> None:
    """50 streams with 40 gaps each, all gaps of a stream equal: 2000 gaps say no more than 50 values."""
    gaps = point_of(closed_run(lambda n: 1 + n * 7919 % 50 / 50, requests=50, tokens=41)).metrics["itl"]
    assert gaps.n == 2000
    assert gaps.percentile(0.5) is not None
    assert gaps.percentile(0.99) is None


def test_point_has_one_colour_in_all_plots_and_numbers_have_their_names() -> None:
    factors = [
        {"variant": "hf", "output_tokens": count, "concurrency": c} for count in (5, 10) for c in (2, 1)
    ]
    made = report(
        *(
            point_of(
                closed_run(1 / one["concurrency"], concurrency=one["concurrency"], tokens=5, factors=one)
            )
            for one in factors
        )
    )
    load, *curves = list(report_plots(made, ()))[:3]
    assert [name for name, *_ in load.legend[:2]] == ["hf, output_tokens=5", "hf, output_tokens=10"]
    assert curves[0].legend == curves[1].legend
    assert [name for name, *_ in curves[0].legend] == [point.name for point in made.points]


def test_cells_of_a_heat_map_have_their_values(factorial: Report) -> None:
    (first, *_) = (plot for plot in report_plots(factorial, ()) if plot.title.startswith("Mean latency"))
    assert first.svg.count('<text class="inner') == 16


def test_columns_of_words_begin_at_the_left(sweep: Report) -> None:
    page = to_html(sweep, report_tables(sweep), OBJECTIVES)
    assert '<th scope="col" class="name">check</th>' in page
    assert '<td class="name open">warning</td>' in page
    assert '<th scope="col">requests</th>' in page
