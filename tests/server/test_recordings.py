"""Every recording of the real DJLServing, replayed: the client sees the same, except for the listed
differences."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.support.real_djl import installed, unpacked
from tests.support.recording import Difference, load, slowed
from tests.support.replay import Replay

HERE = Path(__file__).parent
RECORDINGS = HERE / "recordings"
MOST_DIFFERENCES = 40
AT_ONCE = 8
AGAIN = (1, 3)

pytestmark = pytest.mark.worker


def listed() -> list[tuple[str, str, str]]:
    lines = (HERE / "differences.txt").read_text(encoding="utf-8").splitlines()
    rows = [
        [part.strip() for part in line.split("|", 3)] for line in lines if line.strip() and line[0] != "#"
    ]
    assert all(len(row) == 4 and row[3] for row in rows), "scenario | request | field | why"
    # Those of `netty` are checked by tests/unit/server/test_netty.py.
    return [(scenario, request, field) for scenario, request, field, _ in rows if scenario != "netty"]


def covers(line: tuple[str, str, str], difference: Difference) -> bool:
    found = (difference.scenario, difference.request, difference.field)
    return all(
        fnmatchcase(text, pattern.replace("[", "[[]")) for text, pattern in zip(found, line, strict=True)
    )


def replayed(name: str, factor: int = 1) -> list[Difference]:
    recording = load(RECORDINGS / f"{name}.json")
    if factor > 1:
        recording = slowed(recording, factor)
    folder = Path(
        tempfile.mkdtemp(prefix="lmi-rec-", dir="/tmp")
    )  # short, because sockets are created below it
    try:
        return Replay(recording, folder, RECORDINGS / "handlers").differences()
    finally:
        shutil.rmtree(folder)


def real(name: str) -> list[Difference]:
    """The same against an installed DJLServing."""
    folder = Path(tempfile.mkdtemp(prefix="lmi-rec-", dir="/tmp"))
    try:
        recording = load(RECORDINGS / f"{name}.json")
        return Replay(recording, folder, RECORDINGS / "handlers", installed, unpacked).differences()
    finally:
        shutil.rmtree(folder)


def timeout_of(name: str) -> float:
    """About how long a scenario waits: the longest ones start first, all the others run beside them."""
    labels = " ".join(step["label"] for step in load(RECORDINGS / f"{name}.json")["requests"])
    return max((float(seconds) for seconds in re.findall(r"([\d.]+) s\b", labels)), default=0.0)


def validate(name: str, found: list[Difference]) -> list[str]:
    lines = [line for line in listed() if line[0] == name]
    unlisted = [
        str(difference) for difference in found if not any(covers(line, difference) for line in lines)
    ]
    equal = [" | ".join(line) for line in lines if not any(covers(line, difference) for difference in found)]
    return unlisted + [f"listed in differences.txt, but equal by now: {line}" for line in equal]


def test_every_recording_is_answered_equally_or_as_listed() -> None:
    names = sorted((path.stem for path in RECORDINGS.glob("*.json")), key=timeout_of, reverse=True)
    # One test for all: they wait in real time, concurrently, however pytest distributes the tests.
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = dict(zip(names, pool.map(replayed, names), strict=True))
    for name in names:
        # Many recordings depend on timing, which a busy machine misses: such a one is replayed again, alone.
        for factor in AGAIN:
            if validate(name, found[name]):
                found[name] = replayed(name, factor)
    bad = [message for name in sorted(names) for message in validate(name, found[name])]
    assert not bad, "\n".join(bad)


if (
    "DJL_SERVING_HOME" in os.environ
):  # an optional comparison: without the real server there is nothing to test

    def test_real_djl_serving_still_answers_as_recorded() -> None:
        names = sorted((path.stem for path in RECORDINGS.glob("*.json")), key=timeout_of, reverse=True)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            bad = [str(difference) for found in pool.map(real, names) for difference in found]
        assert not bad, "\n".join(bad)


def test_only_one_outcome_of_a_recorded_race_can_match() -> None:
    won = load(RECORDINGS / "s109_two_models_slow_init_multi_status.json")
    lost = load(RECORDINGS / "s109b_two_models_concurrent_load_race.json")
    assert all(won[part] == lost[part] for part in ("files", "config", "environment"))
    assert {str(step["send"]) for step in won["requests"]} == {str(step["send"]) for step in lost["requests"]}
    pending = [recording for recording in (won, lost) if "PENDING" in str(recording["requests"])]
    assert pending == [lost]
    assert won["name"] not in {scenario for scenario, _, _ in listed()}


def test_list_of_differences_is_short_and_names_existing_recordings() -> None:
    lines = listed()
    assert len(lines) <= MOST_DIFFERENCES
    assert {scenario for scenario, _, _ in lines} <= {path.stem for path in RECORDINGS.glob("*.json")}
