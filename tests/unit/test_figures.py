"""docs/performance.md publishes the measured figures."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

import benchmarks.__main__
from benchmarks import table
from benchmarks.measure import ROOT, scratch_folder
from benchmarks.result import RESULTS, Figure
from benchmarks.suites import cases

FILES = sorted(RESULTS.glob("*.json"))
SOURCES = "\n".join(file.read_text(encoding="utf-8") for file in sorted((ROOT / "benchmarks").glob("*.py")))
TESTS_OF_FIGURES = sorted(set(re.findall(r"\btests/[\w/]+\.py(?:::\w+)?", SOURCES)))


def read(file: Path) -> dict[str, Any]:
    response: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return response


def test_table_in_the_docs_equals_the_results() -> None:
    text = table.PAGE.read_text(encoding="utf-8")
    assert table.with_table(text) == text, "python -m benchmarks.table --write"


def test_every_benchmark_has_a_result_and_no_other_exists() -> None:
    assert {file.stem for file in FILES} == set(table.ORDER)


@pytest.mark.parametrize("test", TESTS_OF_FIGURES)
def test_each_test_that_a_benchmark_counts_exists(test: str) -> None:
    path, _, function = test.partition("::")
    body = ast.parse((ROOT / path).read_text(encoding="utf-8")).body
    names = [
        node.name for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    assert function in names if function else names


def test_benchmark_stops_when_no_test_is_selected() -> None:
    with pytest.raises(SystemExit, match="no test ran"):
        cases("tests/unit/test_figures.py::test_that_was_renamed")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_result_has_command_date_machine_and_figures(file: Path) -> None:
    response = read(file)
    assert response["command"] == f"python -m benchmarks {file.stem}"
    assert response["what"]
    assert response["date"]
    assert {"cpu", "cores", "memory_gb", "kernel", "python"} <= set(response["machine"])
    assert "lmi-deploy" in response["versions"]
    assert response["figures"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_verdict_of_a_figure_follows_from_value_and_aim(file: Path) -> None:
    for result in read(file)["figures"]:
        known = {key: result[key] for key in ("what", "value", "unit", "runs")}
        again = Figure(**known, **result["aim"]).fields()
        assert again["met"] == result["met"]
        if result["runs"]:
            assert result["min"] <= result["median"] <= result["max"]


@pytest.mark.parametrize(
    ("number", "unit", "shown"),
    [
        (0.0516, "s", "52 ms"),
        (1.234, "s", "1.23 s"),
        (78.94, "MB", "78.9 MB"),
        (131.6, "MB", "132 MB"),
        (1.271, "x", "1.27x"),
        (34, "", "34"),
    ],
)
def test_amount_is_rounded_to_three_digits(number: float, unit: str, shown: str) -> None:
    assert table.amount(number, unit) == shown


@pytest.mark.parametrize("name", table.ORDER)
def test_benchmark_help_does_not_run_the_benchmark(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmarks.__main__.main([name, "--help"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == f"usage: python -m benchmarks {name}"
    assert len(shown) > 2


def test_help_lists_the_benchmarks(capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmarks.__main__.main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {name} " in shown for name in table.ORDER)


def test_unknown_benchmark_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        benchmarks.__main__.main(["transfers"])
    assert ended.value.code == 2
    assert "no benchmark 'transfers'; there are: startup" in capsys.readouterr().err


def test_scratch_folder_is_created_and_removed(tmp_path: Path) -> None:
    with scratch_folder(tmp_path / ".build") as folder:
        assert folder.is_dir()
    assert not folder.exists()
