"""`lmi bench --via job` that ends at each lost reply to what it writes: the next command leaves nothing of its job.

The actions of a plan are in the crash matrix; a load job is no action of a plan, because it changes no deployment.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from tests.support.cloud_app import write_recipe
from tests.support.crash_injection import Crash, CrashInjector, CrashKind
from tests.support.crash_scenarios import DOWN, CrashApp, Snapshot, ended
from tests.support.crash_scenarios import crash_app as new_crash_app

BENCH = ("bench", "tiny", "--target", "sagemaker", "--cloudwatch-wait", "0", "-c", "2")
BY_JOB = (*BENCH, "--via", "job", "--instances", "2")
ENDS: tuple[CrashKind, ...] = ("SIGKILL", "SIGINT", "broken connection")


@cache
def undisturbed() -> tuple[Snapshot, CrashInjector]:
    """A deployment, and what the command writes."""
    with new_crash_app() as app:
        write_recipe(RECIPE)
        app.up("--no-probe")
        app.cloud.jobs.seconds = 1e9
        before = app.snapshot()
        result = app.crashed(None, *BY_JOB)
        assert result is not None
        assert result.code == 0, result.err
        return before, app.story


RECIPE = "name: tiny\nmodel_id: org/tiny\nengine: accelerate\ninstance_type: ml.g5.xlarge\n"


def _cases() -> Iterator[Any]:
    for number, (_, what) in enumerate(undisturbed()[1].writes):
        for end in ENDS:
            if end != "broken connection" or "lock.json" not in what:
                crash = Crash("reply lost", number, end)
                yield pytest.param(crash, id=f"{end} at the lost reply to {what} ({number})")


@pytest.fixture
def app(crash_app: CrashApp) -> CrashApp:
    crash_app.restore(undisturbed()[0])
    return crash_app


def left(app: CrashApp) -> list[str]:
    return [*app.jobs_at_work(), *(key for key in app.objects() if key.startswith("jobs/"))]


@pytest.mark.parametrize("crash", [*_cases()])
def test_down_leaves_nothing_of_a_run_that_ended_anywhere(app: CrashApp, crash: Crash) -> None:
    app.cloud.account_state.tag_lag = 900.0
    app.crashed(crash, *BY_JOB)
    ended(app, DOWN)
    assert left(app) == []


@pytest.mark.parametrize("crash", [*_cases()])
def test_gc_ends_the_job_of_a_killed_run_with_its_files(app: CrashApp, crash: Crash) -> None:
    app.crashed(crash, *BY_JOB)
    app.clock.sleep(200)
    result = app.lmi("gc", "--yes")
    assert result.code == 0, result.err
    assert left(app) == []
    assert app.lmi("status", "tiny").code == 0
    again = app.lmi(*BY_JOB)
    assert again.code == 0, again.err
    assert left(app) == []


def test_gc_names_the_job_that_it_stops(app: CrashApp) -> None:
    writes = [what for _, what in undisturbed()[1].writes]
    started = next(number for number, what in enumerate(writes) if what.startswith("start "))
    app.crashed(Crash("reply lost", started, "SIGKILL"), *BY_JOB)
    (job,) = app.jobs_at_work()
    with app.depot_of_a_job().lock.hold("tiny"):
        assert job not in app.lmi("gc", "--yes").out
        assert app.jobs_at_work() == [job]
    result = app.lmi("gc", "--yes", "--json")
    assert f"no lmi waits for its load job {job}; the deployment stays" in result.out
    assert left(app) == []
    assert app.lmi("status", "tiny").code == 0
