"""`lmi up` that moves to the next of `endpoint.regions`, ended at each action and at each lost reply: the next `up`
serves there, and `down` leaves nothing in either region.

Without the tests marked `long`: at each moment of each kind of action.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from tests.functional.sagemaker.test_regions import EAST, REGIONS, WEST, full, is_clear, serving
from tests.support.cloud_app import write_recipe
from tests.support.crash_cases import Case, actions_and_moments, with_selection
from tests.support.crash_injection import BETWEEN, Crash, CrashInjector
from tests.support.crash_scenarios import STAYS, CrashApp, Snapshot
from tests.support.crash_scenarios import crash_app as new_crash_app

UP, DOWN = ("up", "--yes"), ("down", "tiny.yaml", "--yes")


@cache
def undisturbed() -> tuple[Snapshot, CrashInjector]:
    with new_crash_app() as app:
        write_recipe(REGIONS)
        full(app.cloud)
        app.cloud.region(WEST)
        before = app.snapshot()
        result = app.crashed(None, *UP)
        assert result is not None
        assert result.code == 0, result.err
        assert serving(app.cloud.region(WEST)) == ["tiny"]
        return before, app.story


def _cases() -> Iterator[Case]:
    injector = undisturbed()[1]
    for number, action in enumerate(injector.actions):
        if number in injector.done:
            crash = Crash("after", number, "SIGKILL")
            yield Case("", crash, action, f"killed after {action} ({number})")
        yield Case("", Crash("before", number, "SIGINT"), action, f"Ctrl-C before {action} ({number})")
    for number, (action, what) in enumerate(injector.writes):
        if action != BETWEEN:
            crash = Crash("reply lost", number, "SIGKILL")
            yield Case("", crash, action, f"lost reply to {what} ({number})")


# The last ones first: of each kind of action, what is in the next region or in the teardown before it is selected.
@pytest.mark.parametrize("case", with_selection([*_cases()][::-1], actions_and_moments))
def test_next_up_serves_in_the_next_region_and_down_leaves_nothing(crash_app: CrashApp, case: Case) -> None:
    app = crash_app
    app.restore(undisturbed()[0])
    write_recipe(REGIONS)
    result = app.crashed(case.crash, *UP)
    assert result is None if case.crash.ending == "SIGKILL" else result is not None and result.code == 130
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
