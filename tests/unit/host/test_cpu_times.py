"""How busy the processors are."""

import threading
from pathlib import Path

import pytest

from lmi_deploy.host.cpu_times import CpuIdleMeter, CpuTimes, cpu_times, parse_stat

STAT = """cpu  60 6 600 6000 60 6 6 600 60 0
cpu0 10 1 100 1000 10 1 1 100 10 0
cpu1 20 2 200 2000 20 2 2 200 20 0
cpu10 30 3 300 3000 30 3 3 300 30 0
intr 1 2 3
ctxt 99
"""


def test_idle_is_also_waiting_for_a_disk_and_the_guests_time_counts_once() -> None:
    assert parse_stat(STAT, {0}) == CpuTimes(1010, 1223)


def test_only_processors_that_the_process_may_use_count() -> None:
    assert parse_stat(STAT, {1, 10}) == CpuTimes(5050, 5 * 1223)


@pytest.mark.parametrize("content", [None, "cpu0 0 0 0 0 0 0 0 0 0 0\n", "cpu0 what\n"])
def test_without_the_systems_figures_those_of_this_process_count(tmp_path: Path, content: str | None) -> None:
    stat = tmp_path / "stat"
    if content is not None:
        stat.write_text(content)
    before = cpu_times({0}, stat)
    sum(range(100_000))
    after = cpu_times({0}, stat)
    assert after.total > before.total
    assert after.idle - before.idle < after.total - before.total


def test_the_meter_returns_a_share() -> None:
    meter = CpuIdleMeter()
    threading.Event().wait(0.05)
    assert 0 <= meter() <= 1
