"""The handler's warm-up call on this machine before anything is created on SageMaker: when it runs, and its
outcome."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.cloud_app import RECIPE, CloudApp, write_recipe
from tests.support.fake_servers import Behaviour

OWN = RECIPE + 'handler: {file: model.py}\nprobe: {body: "hello", content_type: text/plain}\n'
FINE = "from djl_python import Output\n\ndef handle(inputs):\n    return Output().add('OK')\n"
NOTICE = "the handler's warm-up call succeeded in a worker on this machine"
BROKEN = Behaviour(end="failed", why="ModuleNotFoundError: No module named 'nothere'")


@pytest.fixture
def own(app: CloudApp) -> CloudApp:
    write_recipe(OWN)
    Path("model.py").write_text(FINE)
    return app


def test_dry_run_runs_when_requested(app: CloudApp) -> None:
    assert NOTICE in app.up("--check-handler").err
    assert not app.servers.alive()
    assert app.state.names() == ()


def test_dry_run_runs_by_default_when_it_builds_nothing(own: CloudApp) -> None:
    first = own.up()
    assert NOTICE not in first.err
    assert "lmi skips the handler's warm-up call on this machine (not on this machine yet: " in first.err
    assert "--check-handler always does" in first.err
    own.up("--check-handler", "--set", "options.dtype=fp32")
    Path("model.py").write_text(FINE.replace("OK", "GOOD"))
    assert NOTICE in own.up().err
    assert NOTICE not in own.up().err  # nothing new to build


def test_skipped_dry_run_is_explained(own: CloudApp) -> None:
    messages = own.up("--json").lines
    [output] = [
        line["text"] for line in messages if "skips the handler's warm-up call" in line.get("text", "")
    ]
    assert "not on this machine yet: DJL's Python engine, the serving environment, the weights" in output
    assert "add --check-handler to make it" in output
    assert "skips the handler's warm-up call" not in own.up().err  # no new code


def test_without_the_extra_local_the_dry_run_is_skipped_and_never_a_failure_of_the_handler(
    own: CloudApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    own.up("--check-handler")  # its environment is on this machine now
    Path("model.py").write_text(FINE.replace("OK", "GOOD"))
    monkeypatch.setitem(sys.modules, "psutil", None)
    requested = own.lmi("up", "--yes", "--check-handler")
    assert requested.code != 0
    assert "the package psutil is not installed; it belongs to the extra [local]" in requested.err
    done = own.up()
    assert NOTICE not in done.err
    assert "(not on this machine yet: psutil (lmi's extra [local]))" in done.err


def test_handler_that_fails_the_dry_run_creates_nothing(own: CloudApp) -> None:
    own.servers.next.append(BROKEN)
    result = own.lmi("up", "--yes", "--check-handler")
    assert result.code == 1
    assert "the handler failed on this machine, before anything was created" in result.err
    assert "Nothing was created or paid for" in result.err
    assert "No module named 'nothere'" in result.err
    assert own.cloud_resources() == []


def test_engine_that_cannot_run_here_is_an_error(app: CloudApp) -> None:
    write_recipe(RECIPE.replace("accelerate", "vllm"))
    result = app.lmi("up", "--yes", "--check-handler")
    assert result.code == 2
    assert "--check-handler: lmi cannot run engine vllm on this machine" in result.err
    assert app.cloud_resources() == []
