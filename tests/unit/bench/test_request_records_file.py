"""Requests as JSON Lines, and as Parquet."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from lmi_deploy.bench.parquet_records import ParquetRecords
from lmi_deploy.bench.request_records import RequestRecord
from lmi_deploy.bench.request_records_file import head_line, read_records, record_lines
from lmi_deploy.errors import UsageRefused

TIMES = st.floats(0, 1e6).map(lambda value: round(value, 7))
RECORDS = st.builds(
    RequestRecord,
    scheduled=TIMES,
    sent=TIMES,
    end=TIMES,
    arrivals=st.lists(TIMES, max_size=4).map(tuple),
    error=st.sampled_from(["", "throttled"]),
    detail=st.text(max_size=20),
    output_tokens=st.none() | st.integers(0, 500),
    warmup=st.booleans(),
)


@given(first=st.lists(RECORDS, max_size=5), second=st.lists(RECORDS, min_size=1, max_size=5))
def test_records_survive_their_file(first: list[RequestRecord], second: list[RequestRecord]) -> None:
    lines = [head_line("x"), *record_lines("c=1", first), *record_lines("c=2", second)]
    assert all(line.count("\n") == 1 for line in lines)
    found = read_records(lines, "x.jsonl")
    assert (found.get("c=1", ()), found["c=2"]) == (tuple(first), tuple(second))


def lines() -> list[str]:
    return [head_line("x"), *record_lines("c=1", [RequestRecord(scheduled=0, sent=0.5, end=1)] * 2)]


def test_line_that_a_killed_run_cut_off_is_left_out() -> None:
    assert len(read_records([*lines()[:2], lines()[2][:20]], "x.jsonl")["c=1"]) == 1


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ([lines()[0], "{}\n"], "x.jsonl, line 2: scheduled is missing"),
        ([lines()[0], "[]\n"], "x.jsonl, line 2"),
        ([lines()[0], "not\n", lines()[1]], "x.jsonl, line 2"),
        ([lines()[1]], "line 1: it has no schema lmi-bench-records"),
        ([json.dumps({"schema": "lmi-bench-records", "version": 2}) + "\n"], "schema version 2"),
    ],
)
def test_other_files_are_refused_with_the_line(changed: list[str], words: str) -> None:
    with pytest.raises(UsageRefused, match=words):
        read_records(changed, "x.jsonl")


def test_parquet_of_the_loads_before_stays_if_the_disk_fills_up(tmp_path: Path) -> None:
    kept = ParquetRecords(tmp_path / "r.parquet", "chat")
    records = [
        RequestRecord(scheduled=0.0, sent=0.0, end=1.0, arrivals=(0.5, 1.0), number=n) for n in range(9)
    ]
    kept.add("c=1", records)
    (tmp_path / ".r.parquet.part").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device"):
        kept.add("c=2", records)
    rows = parquet.read_table(tmp_path / "r.parquet").to_pylist()
    assert [(row["point"], row["number"], row["arrivals"]) for row in rows] == [
        ("c=1", number, [0.5, 1.0]) for number in range(9)
    ]
    assert [each.name for each in tmp_path.iterdir()] == ["r.parquet"]
