"""`lmi up` that moves to the next of `endpoint.regions`, ended at each action and at each lost reply: the next `up`
serves there, and `down` leaves nothing in either region."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.functional.sagemaker.test_regions import EAST, REGIONS, WEST, full, is_clear, serving
from tests.support.cloud_app import write_recipe
from tests.support.crash_injection import BETWEEN, Crash, CrashInjector
from tests.support.crash_scenarios import STAYS, CrashApp, Snapshot

UP, DOWN = ("up", "--yes"), ("down", "tiny.yaml", "--yes")


@cache
def undisturbed() -> tuple[Snapshot, CrashInjector]:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        app = CrashApp(Path(folder))
        write_recipe(REGIONS)
        full(app.cloud)
        app.cloud.region(WEST)
        before = app.snapshot()
        result = app.crashed(None, *UP)
        assert result is not None
        assert result.code == 0, result.err
        assert serving(app.cloud.region(WEST)) == ["tiny"]
        return before, app.story


def _cases() -> Iterator[Any]:
    injector = undisturbed()[1]
    for number, action in enumerate(injector.actions):
        if number in injector.done:
            yield pytest.param(Crash("after", number, "SIGKILL"), id=f"killed after {action} ({number})")
        yield pytest.param(Crash("before", number, "SIGINT"), id=f"Ctrl-C before {action} ({number})")
    for number, (action, what) in enumerate(injector.writes):
        if action != BETWEEN:
            yield pytest.param(Crash("reply lost", number, "SIGKILL"), id=f"lost reply to {what} ({number})")


@pytest.mark.parametrize("crash", list(_cases()))
def test_next_up_serves_in_the_next_region_and_down_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crash: Crash
) -> None:
    monkeypatch.chdir(tmp_path)
    app = CrashApp(tmp_path)
    app.restore(undisturbed()[0])
    write_recipe(REGIONS)
    result = app.crashed(crash, *UP)
    assert result is None if crash.ending == "SIGKILL" else result is not None and result.code == 130
    again = app.lmi(*UP)
    assert again.code == 0, again.err
    west = app.cloud.region(WEST)
    assert (serving(west), is_clear(app.cloud)) == (["tiny"], True)
    ended = app.lmi(*DOWN)
    assert ended.code == 0, ended.err
    assert is_clear(west)
    assert [key for key in app.objects() if not key.startswith(STAYS)] == []
    assert app.lmi("ls").out == ""
    assert EAST not in app.lmi("ls", "--all", "--region", EAST).out
