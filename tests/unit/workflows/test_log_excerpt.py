"""What of a long log a diagnosis keeps."""

from __future__ import annotations

import io
import tracemalloc
from pathlib import Path

import pytest

from lmi_deploy.errors import UsageRefused
from lmi_deploy.planning.cause_search import find_causes
from lmi_deploy.workflows.log_excerpt import KEPT, decoded_lines, excerpt, read_log

ROUTINE = "INFO 10-21 11:22:33 [loggers.py:127] Avg prompt throughput: 3.1 tokens/s"
LONG = ROUTINE + " of a long line" * 60
FAILED = [
    "Traceback (most recent call last):",
    '  File "/x/site-packages/vllm/config.py", line 3, in f',
    "ValueError: Unknown kv cache dtype: x",
]


def test_failure_in_the_middle_keeps_its_number_and_its_surroundings() -> None:
    kept = excerpt([*[ROUTINE] * 30_000, *FAILED, *[ROUTINE] * 30_000])
    assert kept.total == 60_003
    assert (30_003, FAILED[2]) in kept.lines
    assert len(kept.lines) <= KEPT
    assert kept.lines == sorted(set(kept.lines))
    assert find_causes(kept.lines)[0].line == 30_003


def test_first_of_too_many_failures_is_kept() -> None:
    kept = excerpt([*FAILED, *["ERROR something else"] * 200_000])
    assert len(kept.lines) <= KEPT
    assert kept.lines[2] == (3, FAILED[2])
    assert kept.lines[-1][0] == 200_003


def test_log_of_20_mb_is_read_in_bounded_memory(tmp_path: Path) -> None:
    log = tmp_path / "long.log"
    block = (LONG + "\n").encode() * 1_000
    with log.open("wb") as file:
        for at in range(20_000_000 // len(block)):
            if at == 10:
                file.write(("\n".join(FAILED) + "\n").encode())
            file.write(block)
    assert log.stat().st_size > 19_000_000
    tracemalloc.start()
    kept = read_log(log)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16_000_000
    assert find_causes(kept.lines)[0].line == 10_003


def test_line_without_an_end_is_cut() -> None:
    stream = io.BytesIO(b"x" * 10_000_000 + b"\nValueError: Unknown kv cache dtype: x")
    lines = list(decoded_lines(stream, "a"))
    assert [len(line) for line in lines] == [4_000, 37]


@pytest.mark.parametrize("content", [b"\x7fELF\0\0", b"\x1f\x8b\x08", "x".encode("utf-16")])
def test_binary_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.log").write_bytes(content)
    with pytest.raises(UsageRefused, match="not a log"):
        read_log(tmp_path / "a.log")


def test_bytes_that_are_not_utf8_are_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"caf\xe9\nValueError: Unknown kv cache dtype: x\n")
    assert find_causes(read_log(tmp_path / "a.log").lines)[0].line == 2
