"""`lmi compile` that ends at each of its actions and writes, and at each lost reply: the next one completes it.

It waits for the job that runs and starts no second one. A result is complete, or there is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from lmi_deploy.domain.weights import Manifest
from tests.support.cloud_app import RECIPE, write_recipe
from tests.support.crash_injection import Crash, CrashInjector, CrashKind
from tests.support.crash_scenarios import COMPILED, DOWN, CrashApp, Snapshot, ended, write_compile_script
from tests.support.crash_scenarios import crash_app as new_crash_app
from tests.support.local_app import MODEL

COMPILE = ("compile", "--yes", "tiny.yaml")
OPTIMIZED = f"""\
name: tiny
model_id: {MODEL}
engine: neuronx
instance_type: ml.inf2.8xlarge
compile: {{}}
tensor_parallel_degree: 2
"""
RECIPES = {"processing job": COMPILED, "optimization job": OPTIMIZED}
ENDS: tuple[CrashKind, ...] = ("SIGKILL", "SIGINT")
LOSSES: tuple[CrashKind, ...] = (*ENDS, "broken connection")


@cache
def undisturbed(kind: str, *, first: bool) -> tuple[Snapshot, CrashInjector]:
    """The state before, and what the command does. Unless it is the first, the weights are in the bucket before."""
    with new_crash_app() as app:
        if not first:
            write_recipe(RECIPE if kind == "processing job" else OPTIMIZED.replace("compile: {}\n", ""))
            app.up("--no-probe")
            assert app.lmi(*DOWN).code == 0
        _write(kind)
        before = app.snapshot()
        result = app.crashed(None, *COMPILE)
        assert result is not None
        assert result.code == 0, result.err
        return before, app.story


def _write(kind: str) -> None:
    write_recipe(RECIPES[kind])
    write_compile_script()


def _cases() -> Iterator[Any]:
    for kind in RECIPES:
        _, injector = undisturbed(kind, first=True)
        for number, action in enumerate(injector.actions):
            for moment in ("before", "after"):
                for end in ENDS:
                    case = Crash(moment, number, end)
                    yield pytest.param(kind, True, case, id=f"{kind}: {end} {moment} {action}")
        _, injector = undisturbed(kind, first=False)
        for number, (_, what) in enumerate(injector.writes):
            for end in LOSSES:
                case = Crash("reply lost", number, end)
                # Without the key: copies run at the same time, and every process of xdist must find the same names.
                verb = what.split()[0]
                yield pytest.param(
                    kind, False, case, id=f"{kind}: {end} at the lost reply to {verb} ({number})"
                )


def _results(app: CrashApp) -> list[Manifest]:
    if app.bucket not in app.cloud.stores:
        return []
    services = app.cloud.without_crashes(app.bucket)
    found = [manifest for manifest in services.weights.all() if manifest.compiled]
    assert all(services.weights.flaws(manifest.name) == () for manifest in found)
    return found


@pytest.mark.parametrize(("kind", "first", "crash"), list(_cases()))
def test_interrupted_compile_is_completed_by_the_next_one(
    crash_app: CrashApp, kind: str, first: bool, crash: Crash
) -> None:
    app = crash_app
    app.restore(undisturbed(kind, first=first)[0])
    _write(kind)
    result = app.crashed(crash, *COMPILE)
    if crash.ending == "SIGKILL":
        assert result is None
    else:
        assert result is not None
        assert result.code in ((130,) if crash.ending == "SIGINT" else (0, 1)), result.err
        assert result.code == 0 or "next: " in result.err, result.err
    assert len(_results(app)) <= 1
    again = app.lmi(*COMPILE)
    assert again.code == 0, again.err
    assert len(_results(app)) == 1
    assert len(app.cloud.jobs.started) + len(app.cloud.optimizations.started) == 1
    app.up("--no-probe")
    ended(app, DOWN)
