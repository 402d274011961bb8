"""A changed recipe on a serving deployment: what clients see, what is printed, what remains."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lmi_deploy.state.state_dir import FileLock
from tests.support.action_failures import ActionFailures, failing
from tests.support.fake_servers import Behaviour, silent
from tests.support.local_app import RECIPE, REF, LocalApp
from tests.support.old_records import schema_1_text

CHANGED = ("up", "--yes", "--set", "options.dtype=fp32")
BROKEN = {
    "fails": Behaviour(end="failed"),
    "dies": Behaviour(end="dies"),
    "hangs": Behaviour(end="hangs"),
    "does not answer": Behaviour(answer=silent),
}


def test_new_server_is_probed_before_it_takes_over_the_address(app: LocalApp) -> None:
    first = app.lmi("up", "--yes")
    result = app.lmi(*CHANGED, "--json")
    steps = [line["key"].partition(":")[0] for line in result.lines if line["event"] == "finished"]
    assert steps == [
        *("PutArtifact", "StartServer", "AwaitReady", "ProbeServer"),
        *("TakeAddress", "StopServer", "RemoveArtifact"),
    ]
    assert result.result["address"] == first.out.strip()
    old, new = app.servers.started
    assert (old.port, new.port) != (0, 0)
    assert new.port == 0


def test_old_server_answers_until_the_new_one_takes_over(app: LocalApp) -> None:
    app.lmi("up", "--yes")
    old = app.observed().serving
    failures = ActionFailures(at=4, when="before", error=KeyboardInterrupt)
    app.target = lambda target: failing(target, failures)
    assert app.lmi(*CHANGED).code == 130
    app.target = lambda target: target
    assert app.observed().serving == old
    assert app.lmi("status").code == 0
    assert app.lmi("invoke", "hello").out == "OK then\n"


@pytest.mark.parametrize("how", BROKEN)
def test_failed_new_server_keeps_the_old_one_serving(app: LocalApp, how: str) -> None:
    address = app.lmi("up", "--yes").out.strip()
    old = app.observed().serving
    app.servers.next.append(BROKEN[how])
    result = app.lmi(*CHANGED)
    assert (result.code, result.out) == (1, "")
    assert f"the previous version of tiny still serves, at {address}" in result.err
    assert app.observed().serving == old
    assert app.lmi("invoke", "hello").out == "OK then\n"
    # A server that hangs is waited for again; any other is started again.
    assert app.lmi(*CHANGED).code == (1 if how == "hangs" else 0)


@pytest.mark.parametrize("how", BROKEN)
@pytest.mark.parametrize("before", [True, False], ids=["changed", "first"])
def test_remains_of_a_failed_up_are_removed(app: LocalApp, how: str, before: bool) -> None:
    if before:
        app.lmi("up", "--yes")
    app.servers.next.append(BROKEN[how])
    assert app.lmi(*CHANGED).code == 1
    assert app.lmi("up", "--yes").code == 0
    assert app.servers.alive() == [app.observed().serving]
    app.servers.next.append(BROKEN[how])
    assert app.lmi(*CHANGED).code == 1
    assert app.lmi("down", "tiny", "--yes").code == 0
    assert app.artifacts_left() == []
    assert app.servers.alive() == []


def test_failed_start_is_reported_with_the_worker_traceback(app: LocalApp) -> None:
    app.servers.next.append(BROKEN["fails"])
    completed = app.lmi("up", "--yes")
    assert "error: the model server failed to start: RuntimeError: no such model" in completed.err
    assert "  Traceback (most recent call last):\n" in completed.err
    assert "still serves" not in completed.err
    app.servers.next.append(BROKEN["fails"])
    result = app.lmi("up", "--yes", "--json").result
    assert result["error"]["kind"] == "DeployFailed"
    assert result["error"]["details"][-1] == "RuntimeError: no such model"


def test_failed_start_names_the_log_file(app: LocalApp) -> None:
    app.lmi("up", "--yes")
    app.servers.next.append(BROKEN["fails"])
    result = app.lmi(*CHANGED)
    log = app.servers.log(app.servers.started[-1].home)
    assert str(log) in result.err
    assert log.exists()


def test_server_that_never_becomes_ready_is_overdue(app: LocalApp) -> None:
    app.servers.next.append(BROKEN["hangs"])
    result = app.lmi("up", "--yes", "--set", "timeouts.container_startup=60", "--json")
    assert result.code == 1
    assert result.result["error"]["kind"] == "Overdue"
    assert "within 60 s" in result.result["error"]["message"]
    assert 60 <= app.clock.passed < 62


def test_down_gives_an_unresponsive_server_a_short_grace(app: LocalApp) -> None:
    app.lmi("up", "--yes")
    server = app.observed().servers[0]
    app.servers.freeze(app.state.servers("tiny")[0])
    result = app.lmi("down", "tiny", "--yes")
    assert (result.code, app.artifacts_left()) == (0, [])
    assert (
        f"{server.server} (pid {server.pid}) does not respond: lmi sends SIGTERM, and SIGKILL after 3 s"
        in result.err
    )
    assert app.servers.stopped == [(server.server, 3.0)]
    app.lmi("up", "--yes")
    app.lmi("down", "tiny", "--yes")
    assert app.servers.stopped[-1][1] == 90.0, "one that answers has time for its last requests"


def test_wait_completes_a_detached_up(app: LocalApp) -> None:
    up = app.lmi("up", "--yes", "--detach")
    assert up.code == 0
    assert "tiny is starting; `lmi wait tiny` waits until it answers" in up.err
    assert "answered" not in up.err
    assert app.lmi("status").code == 4
    for _ in range(3):  # polling lets it load
        app.observed()
    assert "no probe was sent yet; `lmi wait` sends it" in app.lmi("status").out
    result = app.lmi("wait", "tiny")
    assert (result.code, result.out.strip()) == (0, up.out.strip().removesuffix("/invocations"))
    assert "answered: OK then" in result.err
    assert app.lmi("invoke", "tiny", "hello").code == 0
    assert "nothing to do" in app.lmi("plan").out
    again = app.lmi("wait", "tiny")
    assert (again.code, "answered" in again.err) == (0, False)


def test_wait_completes_a_detached_change_of_the_address(app: LocalApp) -> None:
    address = app.lmi("up", "--yes").out
    before = app.observed().serving
    assert app.lmi(*CHANGED, "--detach").code == 0
    assert app.observed().serving == before
    result = app.lmi("wait", "tiny")
    assert (result.code, result.out) == (0, address.replace("/invocations", ""))
    assert before not in app.servers.alive()
    assert app.servers.alive() == [app.observed().serving]
    assert len(app.observed().artifacts) == 1
    assert "nothing to do" in app.lmi("plan", *CHANGED[2:]).out


def test_wait_completes_an_up_interrupted_by_ctrl_c(app: LocalApp) -> None:
    app.target = lambda target: failing(target, ActionFailures(at=5, when="before", error=KeyboardInterrupt))
    assert app.lmi("up", "--yes").code == 130
    app.target = lambda target: target
    assert app.lmi("wait").code == 0
    assert app.lmi("status").code == 0


def test_wait_fails_when_the_server_does_not_start(app: LocalApp) -> None:
    app.servers.next.append(BROKEN["fails"])
    assert app.lmi("up", "--yes", "--detach").code == 0
    result = app.lmi("wait", "tiny")
    assert (result.code, result.out) == (1, "")
    assert "the model server failed to start: RuntimeError: no such model" in result.err
    app.lmi("down", "tiny", "--yes")
    app.servers.next.append(BROKEN["hangs"])
    assert app.lmi("up", "--yes", "--detach").code == 0
    result = app.lmi("wait", "tiny", "--timeout", "30")
    assert (result.code, "within 30 s" in result.err) == (1, True)


def test_killed_server_is_restarted_at_its_address(app: LocalApp) -> None:
    address = app.lmi("up", "--yes").out
    app.servers.kill(app.state.servers("tiny")[0])
    assert app.lmi("invoke", "hello").code == 1
    result = app.lmi("up", "--yes")
    assert (result.code, result.out) == (0, address)
    assert app.servers.alive() == [app.observed().serving]


def test_changed_port_changes_the_address(app: LocalApp) -> None:
    app.lmi("up", "--yes")
    port = app.other_port()
    result = app.lmi("up", "--yes", "--set", f"endpoint.port={port}")
    assert (result.code, result.out) == (0, f"http://127.0.0.1:{port}/invocations\n")
    assert app.servers.alive() == [app.observed().serving]


def test_change_that_restarts_no_server_is_recorded(app: LocalApp) -> None:
    Path("model.py").write_text("def handle(inputs): ...\n")
    recipe = RECIPE + "handler: {file: model.py}\nprobe: {body: '{}'}\n"
    Path("tiny.yaml").write_text(recipe + "task: text-generation\n")
    app.lmi("up", "--yes")
    Path("tiny.yaml").write_text(recipe + "task: text-classification\n")
    assert app.lmi("up", "--yes").code == 0
    assert "text-classification" in app.lmi("status").out
    assert len(app.servers.started) == 1


def test_wait_completes_a_detached_up_of_an_older_lmi(app: LocalApp) -> None:
    assert app.lmi("up", "--yes").code == 0
    Path("tiny.yaml").write_text(RECIPE + "options: {dtype: fp32}\n")
    assert app.lmi("up", "--yes", "--detach").code == 0
    record = app.observed().record
    assert record
    path = app.state.home("tiny") / "record.json"
    path.write_text(schema_1_text(record))
    assert app.lmi("invoke", "tiny", "hello").code == 0
    assert app.lmi("wait", "tiny").code == 0
    assert app.lmi("status", "tiny").code == 0
    assert json.loads(path.read_text())["schema"] == 2
    assert "nothing to do" in app.lmi("up", "--yes").err


@pytest.mark.parametrize("left", [None, "{", '{"schema": 1}'], ids=["gone", "cut", "another form"])
def test_lost_record_is_rebuilt_by_up(app: LocalApp, left: str | None) -> None:
    address = app.lmi("up", "--yes").out
    record = app.state.home("tiny") / "record.json"
    record.unlink()
    if left is not None:
        record.write_text(left)
    assert app.lmi("status").code == 4
    result = app.lmi("up", "--yes")
    assert (result.code, result.out) == (0, address)
    assert "nothing to do" in result.err
    assert len(app.servers.started) == 1
    assert app.lmi("status").code == 0
    record.unlink()
    assert app.lmi("down", "tiny", "--yes").code == 0
    assert app.artifacts_left() == []
    assert app.servers.alive() == []


def test_second_run_is_refused_while_the_lock_is_held(app: LocalApp) -> None:
    with FileLock(app.state.root, app.clock, command="lmi up").hold("tiny"):
        result = app.lmi("up", "--yes", "--json")
    assert result.code == 5
    assert result.result["error"]["kind"] == "Locked"
    assert "tiny: locked by lmi up (pid " in result.result["error"]["message"]
    assert not app.observed(REF).exists
