"""`lmi bench report` and `lmi bench compare`, on reports of simulated runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lmi_deploy.bench.objectives import parse_objective
from lmi_deploy.bench.report import Provenance, Report
from lmi_deploy.bench.report_file import to_json
from lmi_deploy.bench.report_points import point_of
from tests.support.bench_runs import BEGAN, T4, closed_run
from tests.support.local_app import LocalApp

PROVENANCE = Provenance(tool="lmi", python="3.11", machine="test", cpus=2, clock="time.perf_counter")


def write_report(path: Path, seconds: float = 0.1, *, tokens: int = 0, requests: int = 400) -> Path:
    objective = parse_objective("p99_ms", 150)
    run = closed_run(
        lambda n: seconds * (1 + n % 7 / 100), concurrency=2, requests=requests, tokens=tokens, billed=T4
    )
    point = point_of(run, objectives=[objective])
    report = Report(
        name="x", created=BEGAN, provenance=PROVENANCE, points=(point,), objectives=(objective.words,)
    )
    path.write_text(to_json(report), encoding="utf-8")
    return path


def test_report_prints_its_tables_and_writes_each_form(app: LocalApp, tmp_path: Path) -> None:
    file = str(write_report(tmp_path / "run.json"))
    shown = app.lmi("bench", "report", file)
    assert shown.code == 0
    assert "Latency in milliseconds, end to end" in shown.out
    assert shown.out.splitlines()[-1] == "PASS: p99_ms <= 150 (1 point, 400 requests)"
    forms = {form: tmp_path / f"run.{form}" for form in ("html", "markdown", "csv", "junit")}
    options = [word for form, path in forms.items() for word in (f"--{form}", str(path))]
    written = app.lmi("bench", "report", file, *options, "--json")
    assert written.lines[-1]["files"] == [str(path) for path in forms.values()]
    starts = {form: path.read_text(encoding="utf-8")[:5] for form, path in forms.items()}
    assert starts == {"html": "<!doc", "markdown": "# x\n\n", "csv": "point", "junit": "<?xml"}


def test_report_that_cannot_be_written_is_refused(app: LocalApp, tmp_path: Path) -> None:
    file = str(write_report(tmp_path / "run.json"))
    result = app.lmi("bench", "report", file, "--html", str(tmp_path / "none" / "x.html"))
    assert result.code == 2
    assert "No such file or directory" in result.out + result.err


def test_comparison_exits_with_7_only_beyond_the_threshold(app: LocalApp, tmp_path: Path) -> None:
    before, after = (str(write_report(tmp_path / f"{name}.json", s)) for name, s in (("a", 0.1), ("b", 0.12)))
    assert app.lmi("bench", "compare", before, after).code == 0
    passed = app.lmi("bench", "compare", before, after, "--threshold", "0.3", "--json")
    assert (passed.code, passed.lines[-1]["worse"] > 0) == (0, True)
    failed = app.lmi(
        "bench", "compare", before, after, "--threshold", "0.05", "--metric", "e2e p50", "--json"
    )
    assert failed.code == 7
    assert failed.lines[-1]["error"]["kind"] == "ObjectiveMissed"
    assert "e2e p50 at most 0.05 worse: 0.103 -> 0.1236, +20.0 %" in failed.lines[-1]["error"]["details"][0]


def test_gate_that_can_decide_nothing_is_no_pass(app: LocalApp, tmp_path: Path) -> None:
    before, after = (str(write_report(tmp_path / f"{n}.json", requests=12)) for n in ("a", "b"))
    gate = ("bench", "compare", before, after, "--threshold", "0.001")
    open_ = app.lmi(*gate, "--json")
    assert open_.code == 8
    assert [line["ok"] for line in open_.lines if line["event"] == "result"] == [False]
    assert open_.lines[-1]["error"]["kind"] == "Undecided"
    assert "UNDECIDED: " in open_.lines[-1]["error"]["message"]
    assert "error: " in app.lmi(*gate).err
    accepted = app.lmi(*gate, "--undecided", "pass", "--json")
    assert (accepted.code, accepted.lines[-1]["undecided"] > 0) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--metric", "e2e p50"], "--metric has no effect without --threshold"),
        (["--threshold", "0.1", "--metric", "p50"], "p50: not in the reports"),
    ],
)
def test_bad_arguments_of_a_comparison_are_refused(
    app: LocalApp, tmp_path: Path, arguments: list[str], words: str
) -> None:
    file = str(write_report(tmp_path / "a.json"))
    result = app.lmi("bench", "compare", file, file, *arguments, "--json")
    assert (result.code, result.lines[-1]["error"]["message"].startswith(words)) == (2, True)


def test_measured_instances_are_sorted_by_the_cost_of_output_tokens(app: LocalApp, tmp_path: Path) -> None:
    slow, fast, plain = (
        str(write_report(tmp_path / f"{seconds}-{tokens}.json", seconds, tokens=tokens))
        for seconds, tokens in ((0.12, 20), (0.06, 20), (0.01, 0))
    )
    options = [word for file in (plain, slow, fast) for word in ("--bench", file)]
    found = [line for line in app.lmi("instances", *options, "--json").lines if line["event"] == "row"]
    assert [row["report"] for row in found] == [fast, slow, plain]
    # 2 x 0.7364 an hour; 2 requests in flight of about 62 ms, with 20 tokens each.
    expected = 2 * 0.7364 / 3600 / (2 / 0.0618 * 20) * 1e6
    assert found[0]["per_million_output_tokens"] == pytest.approx(expected, rel=0.01)
    assert found[2]["per_million_output_tokens"] is None
    shown = app.lmi("instances", "--bench", fast)
    assert (shown.code, "1 deployment in 1 report" in shown.err) == (0, True)


def test_measured_instances_leave_out_what_missed_its_objective(app: LocalApp, tmp_path: Path) -> None:
    file = str(write_report(tmp_path / "slow.json", 0.3))
    result = app.lmi("instances", "--bench", file)
    assert (result.code, "0 deployments in 1 report: no point is valid" in result.err) == (0, True)
    assert app.lmi("instances", "--bench", file, "--all").code == 2


def test_files_that_are_no_reports_are_refused(app: LocalApp, tmp_path: Path) -> None:
    newer = json.loads(write_report(tmp_path / "a.json").read_text(encoding="utf-8"))
    (tmp_path / "newer.json").write_text(json.dumps({**newer, "version": 9}), encoding="utf-8")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    for name, words in (
        ("newer.json", "schema version 9; this lmi reads version 1"),
        ("bytes.json", "not a text"),
        ("none.json", "No such file or directory"),
    ):
        result = app.lmi("bench", "report", str(tmp_path / name), "--json")
        assert (result.code, words in result.lines[-1]["error"]["message"]) == (2, True)
