"""A handler's warm-up call on this machine before anything is created on SageMaker: when, and what comes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cloud_app import RECIPE, CloudHouse, write_recipe
from tests.support.fake_servers import Behaviour

OWN = RECIPE + 'handler: {file: model.py}\nprobe: {body: "hello", content_type: text/plain}\n'
FINE = "from djl_python import Output\n\ndef handle(inputs):\n    return Output().add('OK')\n"
TOLD = "the handler's warm-up call was made in a worker on this machine"
BROKEN = Behaviour(end="failed", why="ModuleNotFoundError: No module named 'nothere'")


@pytest.fixture
def own(house: CloudHouse) -> CloudHouse:
    write_recipe(OWN)
    Path("model.py").write_text(FINE)
    return house


def test_it_is_made_when_it_is_asked_for(house: CloudHouse) -> None:
    assert TOLD in house.up("--check-handler").err
    assert not house.servers.alive()
    assert house.state.names() == ()


def test_own_code_is_tried_unasked_once_that_builds_nothing(own: CloudHouse) -> None:
    first = own.up()
    assert TOLD not in first.err
    assert (
        "the handler's warm-up call is not made on this machine first (not on this machine yet: " in first.err
    )
    assert "in any case with --check-handler" in first.err
    own.up("--check-handler", "--set", "options.dtype=fp32")
    Path("model.py").write_text(FINE.replace("OK", "GOOD"))
    assert TOLD in own.up().err
    assert TOLD not in own.up().err  # nothing new


def test_a_warm_up_call_that_is_not_made_says_why(own: CloudHouse) -> None:
    told = own.up("--json").lines
    [said] = [line["text"] for line in told if "is not made" in line.get("text", "")]
    assert "not on this machine yet: DJL's Python engine, the serving environment, the weights" in said
    assert "--check-handler makes it" in said
    assert "is not made" not in own.up().err  # no new code


def test_what_does_not_come_up_here_creates_nothing_there(own: CloudHouse) -> None:
    own.servers.next.append(BROKEN)
    told = own.lmi("up", "--yes", "--check-handler")
    assert told.code == 1
    assert "tried on this machine before anything is created" in told.err
    assert "nothing was created or paid for" in told.err
    assert "No module named 'nothere'" in told.err
    assert own.kept_in_cloud() == []


def test_an_engine_that_cannot_run_here_says_so(house: CloudHouse) -> None:
    write_recipe(RECIPE.replace("accelerate", "vllm"))
    told = house.lmi("up", "--yes", "--check-handler")
    assert told.code == 2
    assert "--check-handler: engine vllm does not run on this machine" in told.err
    assert house.kept_in_cloud() == []
