"""`lmi compile` for target local: a real script on this machine, its result in the cache, served by `lmi up`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.local_app import RECIPE, LocalApp

HEAD = """
import argparse, pathlib, sys, os
given = argparse.ArgumentParser()
given.add_argument("--model", type=pathlib.Path)
given.add_argument("--output", type=pathlib.Path)
given.add_argument("--batch", default="1")
options = given.parse_args()
"""
GOOD = f"""{HEAD}
print("compiling", flush=True)
(options.output / "config.json").write_bytes((options.model / "config.json").read_bytes())
(options.output / "graph.bin").write_text("graph of batch " + options.batch)
"""
BROKEN = f"""{HEAD}
(options.output / "half").write_text("half")
print("the graph has no inputs", flush=True)
sys.exit(3)
"""
NOTHING = HEAD
INTERRUPTED = f"""{HEAD}
import signal
(options.output / "half").write_text("half")
os.kill(os.getppid(), signal.SIGINT)
import time; time.sleep(60)
"""


@pytest.fixture
def app(tmp_path: Path) -> Iterator[LocalApp]:
    app = LocalApp(tmp_path)
    app.environments.interpreter = Path(sys.executable)
    written(app, GOOD)
    yield app
    app.servers.close()


def written(app: LocalApp, script: str, *, keys: str = "compile: {script: compile.py}\n") -> str:
    (app.root / "compile.py").write_text(script)
    recipe = app.root / "recipe.yaml"
    recipe.write_text(RECIPE + keys)
    return str(recipe)


def compiled(app: LocalApp) -> list[Path]:
    """All that a compile left in the cache, but locks and logs."""
    root = app.root / "cache" / "compiled"
    return [path for path in root.iterdir() if path.suffix not in (".lock", ".log")] if root.exists() else []


def test_the_result_is_made_once_and_served(app: LocalApp) -> None:
    recipe = str(app.root / "recipe.yaml")
    refused = app.lmi("up", "--yes", recipe)
    assert refused.code == 2, refused.err
    assert "not compiled yet" in refused.err
    assert "lmi compile" in refused.err
    assert app.servers.started == []

    first = app.lmi("compile", "--yes", "--json", recipe)
    assert first.code == 0, first.err
    assert first.result["changed"] is True
    assert first.result["files"] == ["config.json", "graph.bin"]

    # Whatever would be compiled at start-up, or again, would fail from now on.
    app.environments.interpreter = app.root / "no-python"
    again = app.lmi("compile", "--yes", "--json", recipe)
    assert (again.code, again.result["changed"]) == (0, False)
    up = app.lmi("up", "--yes", recipe)
    assert up.code == 0, up.err
    (folder,) = compiled(app)
    assert {launch.weights for launch in app.servers.started} == {folder / "model"}
    assert (folder / "model" / "graph.bin").read_text() == "graph of batch 1"


def test_other_arguments_are_another_result(app: LocalApp) -> None:
    one = app.lmi("compile", "--yes", "--json", str(app.root / "recipe.yaml")).result
    recipe = written(app, GOOD, keys="compile: {script: compile.py, arguments: {batch: 4}}\n")
    assert app.lmi("up", "--yes", recipe).code == 2
    four = app.lmi("compile", "--yes", "--json", recipe).result
    assert one["result"] != four["result"]
    assert len(compiled(app)) == 2


def test_a_failed_script_says_why_and_leaves_nothing(app: LocalApp) -> None:
    recipe = written(app, BROKEN)
    failed = app.lmi("compile", "--yes", recipe)
    assert failed.code == 1
    assert "exit status 3" in failed.err
    assert "the graph has no inputs" in failed.err
    assert compiled(app) == []
    assert app.lmi("compile", "--yes", written(app, GOOD)).code == 0


def test_a_script_that_writes_nothing_is_a_failure(app: LocalApp) -> None:
    failed = app.lmi("compile", "--yes", written(app, NOTHING))
    assert failed.code == 1
    assert "wrote no file" in failed.err
    assert compiled(app) == []


def test_ctrl_c_keeps_nothing_and_the_next_run_starts_cleanly(app: LocalApp) -> None:
    stopped = app.lmi("compile", "--yes", written(app, INTERRUPTED))
    assert stopped.code == 130
    assert "nothing of the result was kept" in stopped.err
    assert compiled(app) == []
    assert app.lmi("compile", "--yes", written(app, GOOD)).code == 0
    assert len(compiled(app)) == 1


def test_a_missing_script_is_a_mistake_of_the_recipe(app: LocalApp) -> None:
    (app.root / "compile.py").unlink()
    failed = app.lmi("compile", "--yes", str(app.root / "recipe.yaml"))
    assert failed.code == 2
    assert "compile.script" in failed.err


def test_an_engine_that_no_runtime_has_is_refused_before_anything_is_made(app: LocalApp) -> None:
    recipe = app.root / "recipe.yaml"
    recipe.write_text(RECIPE.replace("accelerate", "tensorrt-llm") + "compile: {}\n")
    failed = app.lmi("compile", "--yes", str(recipe))
    assert failed.code == 2
    assert "no runtime on this machine runs engine tensorrt-llm" in failed.err
    assert compiled(app) == []


def test_the_cache_lists_and_removes_results(app: LocalApp) -> None:
    recipe = str(app.root / "recipe.yaml")
    name = app.lmi("compile", "--yes", "--json", recipe).result["result"]
    entries = {row.get("name"): row for row in app.lmi("cache", "ls", "--json").lines}
    assert entries[name]["kind"] == "compiled"
    assert entries[name]["size"] > 0
    removed = app.lmi("cache", "rm", name, "--yes", "--json")
    assert removed.result["bytes"] == entries[name]["size"]
    assert compiled(app) == []
    assert app.lmi("up", "--yes", recipe).code == 2
