"""Tables in a narrow terminal."""

from __future__ import annotations

from lmi_deploy.domain.report_table import ReportTable
from lmi_deploy.ui.bench_text import table_lines

FIGURES = ReportTable(
    title="Figures",
    columns=("point", *(f"figure {number}" for number in range(9))),
    rows=tuple((f"concurrency={c}", *(f"{c * n}.50" for n in range(9))) for c in (1, 64)),
    notes=(
        "p99 takes 299 requests; the smallest point has 17 and others have more than it, but not enough of them",
    ),
)
CHECKS = ReportTable(
    title="Consistency",
    columns=("point", "check", "what"),
    rows=(
        (
            "concurrency=1",
            "loop_lag",
            "event loop of the client: lag 57.1 ms (p99), over 5 ms: it was measured",
        ),
    ),
)


def test_figures_that_do_not_fit_go_on_below_with_their_points() -> None:
    lines = [*table_lines([FIGURES], 60)]
    assert max(map(len, lines)) <= 60
    heads = [line.split() for line in lines if line.startswith("  point")]
    assert len(heads) == 3
    assert sum(line.startswith("  concurrency=64") for line in lines) == 3
    assert sum(word == "figure" for head in heads for word in head) == 9


def test_sentence_that_does_not_fit_is_broken_in_its_column() -> None:
    lines = [*table_lines([CHECKS], 70)]
    assert max(map(len, lines)) <= 70
    column = lines[1].index("what")
    assert " ".join(line[column:].strip() for line in lines[2:]) == CHECKS.rows[0][2]
    assert all(line[:column].strip() == "" for line in lines[3:])


def test_sentence_without_room_beside_its_figures_goes_on_below() -> None:
    lines = [*table_lines([CHECKS], 42)]
    assert max(map(len, lines)) <= 42
    assert sum(line.startswith("  concurrency=1") for line in lines) == 2


def test_pipe_has_no_width() -> None:
    assert len([*table_lines([FIGURES])]) == 1 + 3 + 2
    assert [*table_lines([CHECKS])][2].endswith("it was measured")


def test_table_of_one_column_is_shown() -> None:
    one = ReportTable(title="t", columns=("what",), rows=(("a",),))
    assert [*table_lines([one], 50)] == ["t", "  what", "  a"]
