"""A changed recipe on a deployment that serves: what the clients see, what is said, what is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmi_deploy.state.state_dir import FolderLock
from tests.support.action_failures import Trouble, TroubledTarget
from tests.support.fake_servers import Behaviour, silent
from tests.support.local_app import RECIPE, REF, House

CHANGED = ("up", "--yes", "--set", "options.dtype=fp32")
BROKEN = {
    "fails": Behaviour(end="failed"),
    "dies": Behaviour(end="dies"),
    "hangs": Behaviour(end="hangs"),
    "does not answer": Behaviour(answer=silent),
}


def test_the_new_server_is_asked_before_it_takes_the_address(house: House) -> None:
    first = house.lmi("up", "--yes")
    ran = house.lmi(*CHANGED, "--json")
    steps = [line["key"].partition(":")[0] for line in ran.lines if line["event"] == "finished"]
    assert steps == [
        *("PutArtifact", "StartServer", "AwaitReady", "ProbeServer"),
        *("TakeAddress", "StopServer", "RemoveArtifact"),
    ]
    assert ran.result["address"] == first.out.strip()
    old, new = house.servers.started
    assert (old.port, new.port) != (0, 0)
    assert new.port == 0


def test_the_old_server_answers_until_the_new_one_does(house: House) -> None:
    house.lmi("up", "--yes")
    old = house.observed().serving
    trouble = Trouble(at=4, when="before", error=KeyboardInterrupt)
    house.target = lambda target: TroubledTarget(target, trouble)
    assert house.lmi(*CHANGED).code == 130
    house.target = lambda target: target
    assert house.observed().serving == old
    assert house.lmi("status").code == 0
    assert house.lmi("invoke", "hello").out == "OK then\n"


@pytest.mark.parametrize("how", BROKEN)
def test_a_new_server_that_fails_leaves_the_old_one_serving(house: House, how: str) -> None:
    address = house.lmi("up", "--yes").out.strip()
    old = house.observed().serving
    house.servers.next.append(BROKEN[how])
    ran = house.lmi(*CHANGED)
    assert (ran.code, ran.out) == (1, "")
    assert f"tiny still serves as it did before, at {address}" in ran.err
    assert house.observed().serving == old
    assert house.lmi("invoke", "hello").out == "OK then\n"
    # A server that only hangs is waited for again; any other is started anew.
    assert house.lmi(*CHANGED).code == (1 if how == "hangs" else 0)


@pytest.mark.parametrize("how", BROKEN)
@pytest.mark.parametrize("before", [True, False], ids=["changed", "first"])
def test_what_a_failed_up_left_is_cleared_away(house: House, how: str, before: bool) -> None:
    if before:
        house.lmi("up", "--yes")
    house.servers.next.append(BROKEN[how])
    assert house.lmi(*CHANGED).code == 1
    assert house.lmi("up", "--yes").code == 0
    assert house.servers.alive() == [house.observed().serving]
    house.servers.next.append(BROKEN[how])
    assert house.lmi(*CHANGED).code == 1
    assert house.lmi("down", "tiny", "--yes").code == 0
    assert house.kept() == []
    assert house.servers.alive() == []


def test_a_failed_start_is_told_with_the_workers_own_words(house: House) -> None:
    house.servers.next.append(BROKEN["fails"])
    ran = house.lmi("up", "--yes")
    assert "error: the model server did not come up: RuntimeError: no such model\n" in ran.err
    assert "  Traceback (most recent call last):\n" in ran.err
    assert "still serves" not in ran.err
    house.servers.next.append(BROKEN["fails"])
    result = house.lmi("up", "--yes", "--json").result
    assert result["error"]["kind"] == "DeployFailed"
    assert result["error"]["details"][-1] == "RuntimeError: no such model"


def test_a_failed_start_names_the_log_that_tells_more(house: House) -> None:
    house.lmi("up", "--yes")
    house.servers.next.append(BROKEN["fails"])
    ran = house.lmi(*CHANGED)
    log = house.servers.log(house.servers.started[-1].home)
    assert str(log) in ran.err
    assert log.exists()


def test_a_server_that_hangs_is_overdue(house: House) -> None:
    house.servers.next.append(BROKEN["hangs"])
    ran = house.lmi("up", "--yes", "--set", "timeouts.container_startup=60", "--json")
    assert ran.code == 1
    assert ran.result["error"]["kind"] == "Overdue"
    assert "within 60 s" in ran.result["error"]["message"]
    assert 60 <= house.clock.passed < 62


def test_a_server_that_answers_nobody_is_not_waited_for(house: House) -> None:
    house.lmi("up", "--yes")
    server = house.observed().servers[0]
    house.servers.freeze(house.state.servers("tiny")[0])
    ran = house.lmi("down", "tiny", "--yes")
    assert (ran.code, house.kept()) == (0, [])
    assert (
        f"{server.server} (pid {server.pid}) runs and answers nobody: SIGTERM, and SIGKILL after 3 s"
        in ran.err
    )
    assert house.servers.stopped == [(server.server, 3.0)]
    house.lmi("up", "--yes")
    house.lmi("down", "tiny", "--yes")
    assert house.servers.stopped[-1][1] == 90.0, "one that answers has time for its last requests"


def test_a_detached_up_is_brought_to_its_end_by_wait(house: House) -> None:
    up = house.lmi("up", "--yes", "--detach")
    assert up.code == 0
    assert "tiny is on its way; `lmi wait tiny` waits for it" in up.err
    assert "answered" not in up.err
    assert house.lmi("status").code == 4
    for _ in range(3):  # it loads as it is looked at
        house.observed()
    assert "nobody has asked it yet: `lmi wait` does" in house.lmi("status").out
    ran = house.lmi("wait", "tiny")
    assert (ran.code, ran.out.strip()) == (0, up.out.strip().removesuffix("/invocations"))
    assert "answered: OK then" in ran.err
    assert house.lmi("invoke", "tiny", "hello").code == 0
    assert "nothing to do" in house.lmi("plan").out
    again = house.lmi("wait", "tiny")
    assert (again.code, "answered" in again.err) == (0, False)


def test_a_detached_change_takes_the_address_when_it_is_waited_for(house: House) -> None:
    address = house.lmi("up", "--yes").out
    before = house.observed().serving
    assert house.lmi(*CHANGED, "--detach").code == 0
    assert house.observed().serving == before
    ran = house.lmi("wait", "tiny")
    assert (ran.code, ran.out) == (0, address.replace("/invocations", ""))
    assert before not in house.servers.alive()
    assert house.servers.alive() == [house.observed().serving]
    assert len(house.observed().artifacts) == 1
    assert "nothing to do" in house.lmi("plan", *CHANGED[2:]).out


def test_what_ctrl_c_left_on_its_way_is_waited_for(house: House) -> None:
    house.target = lambda target: TroubledTarget(
        target, Trouble(at=5, when="before", error=KeyboardInterrupt)
    )
    assert house.lmi("up", "--yes").code == 130
    house.target = lambda target: target
    assert house.lmi("wait").code == 0
    assert house.lmi("status").code == 0


def test_what_does_not_come_up_fails_the_wait(house: House) -> None:
    house.servers.next.append(BROKEN["fails"])
    assert house.lmi("up", "--yes", "--detach").code == 0
    ran = house.lmi("wait", "tiny")
    assert (ran.code, ran.out) == (1, "")
    assert "the model server did not come up: RuntimeError: no such model" in ran.err
    house.lmi("down", "tiny", "--yes")
    house.servers.next.append(BROKEN["hangs"])
    assert house.lmi("up", "--yes", "--detach").code == 0
    ran = house.lmi("wait", "tiny", "--timeout", "30")
    assert (ran.code, "within 30 s" in ran.err) == (1, True)


def test_a_killed_server_is_brought_back_at_its_address(house: House) -> None:
    address = house.lmi("up", "--yes").out
    house.servers.kill(house.state.servers("tiny")[0])
    assert house.lmi("invoke", "hello").code == 1
    ran = house.lmi("up", "--yes")
    assert (ran.code, ran.out) == (0, address)
    assert house.servers.alive() == [house.observed().serving]


def test_another_port_is_another_address(house: House) -> None:
    house.lmi("up", "--yes")
    port = house.other_port()
    ran = house.lmi("up", "--yes", "--set", f"endpoint.port={port}")
    assert (ran.code, ran.out) == (0, f"http://127.0.0.1:{port}/invocations\n")
    assert house.servers.alive() == [house.observed().serving]


def test_a_change_that_moves_no_server_is_recorded_all_the_same(house: House) -> None:
    Path("model.py").write_text("def handle(inputs): ...\n")
    recipe = RECIPE + "handler: {file: model.py}\nprobe: {body: '{}'}\n"
    Path("tiny.yaml").write_text(recipe + "task: text-generation\n")
    house.lmi("up", "--yes")
    Path("tiny.yaml").write_text(recipe + "task: text-classification\n")
    assert house.lmi("up", "--yes").code == 0
    assert "text-classification" in house.lmi("status").out
    assert len(house.servers.started) == 1


@pytest.mark.parametrize("left", [None, "{", '{"schema": 1}'], ids=["gone", "cut", "another form"])
def test_a_lost_record_loses_history_only(house: House, left: str | None) -> None:
    address = house.lmi("up", "--yes").out
    record = house.state.home("tiny") / "record.json"
    record.unlink()
    if left is not None:
        record.write_text(left)
    assert house.lmi("status").code == 4
    ran = house.lmi("up", "--yes")
    assert (ran.code, ran.out) == (0, address)
    assert "nothing to do" in ran.err
    assert len(house.servers.started) == 1
    assert house.lmi("status").code == 0
    record.unlink()
    assert house.lmi("down", "tiny", "--yes").code == 0
    assert house.kept() == []
    assert house.servers.alive() == []


def test_two_at_once_are_refused_in_turn(house: House) -> None:
    with FolderLock(house.state.root, house.clock, command="lmi up").hold("tiny"):
        ran = house.lmi("up", "--yes", "--json")
    assert ran.code == 5
    assert ran.result["error"]["kind"] == "Refused"
    assert "tiny: locked by lmi up (pid " in ran.result["error"]["message"]
    assert not house.observed(REF).exists
