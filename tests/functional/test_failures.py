"""Fail at step n, die at step n: whatever is left, `up` brings the one wanted server and `down` leaves nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.action_failures import Killed, KilledAtSettling, Trouble, TroubledTarget, When, fail
from tests.support.local_app import RECIPE, House

CHANGE = ("--set", "options.dtype=fp32")
FIRST = ("up", "--yes")
CHANGED = ("up", "--yes", *CHANGE)
DOWN = ("down", "tiny", "--yes")
SITUATIONS: dict[str, tuple[list[tuple[str, ...]], tuple[str, ...]]] = {
    "first up": ([], FIRST),
    "changed recipe": ([FIRST], CHANGED),
    "another address": ([FIRST], ("up", "--yes", "--set", "endpoint.port=0")),
    "teardown": ([FIRST], DOWN),
}


def _new(root: Path) -> House:
    (root / "tiny.yaml").write_text(RECIPE)
    return House(root)


def _command(house: House, argv: tuple[str, ...]) -> tuple[str, ...]:
    """`endpoint.port=0` stands for one that is free."""
    return tuple(
        f"endpoint.port={house.other_port()}" if word == "endpoint.port=0" else word for word in argv
    )


def _steps(before: list[tuple[str, ...]], command: tuple[str, ...]) -> list[str]:
    """The actions of a plan, from the plan itself."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        house = _new(Path(folder))
        for argv in before:
            house.lmi(*argv)
        lines = house.lmi(*_command(house, command), "--json").lines
        house.servers.close()
    return [line["key"].partition(":")[0] for line in lines if line["event"] == "started"]


CASES = [
    pytest.param(situation, at, when, id=f"{situation}: {when} {step}")
    for situation, (before, command) in SITUATIONS.items()
    for at, step in enumerate(_steps(before, command))
    for when in ("before", "after")
]


def _converges(house: House, argv: tuple[str, ...]) -> None:
    """Up, once, whatever is there: one server, the wanted one, recorded; nothing more to do."""
    ran = house.lmi(*argv)
    assert ran.code == 0, ran.err
    seen = house.observed()
    assert house.servers.alive() == [seen.serving]
    assert [server.server for server in seen.servers] == [seen.serving]
    assert len(seen.artifacts) == 1
    assert seen.record is not None
    assert seen.record.current is not None
    assert seen.record.current.server == seen.serving
    assert ran.out == f"http://127.0.0.1:{seen.record.current.port}/invocations\n"
    assert house.lmi("status").code == 0
    assert "nothing to do" in house.lmi(*argv).err
    assert house.lmi("invoke", "hello").out == "OK then\n"


def _ends(house: House) -> None:
    ran = house.lmi(*DOWN)
    assert ran.code == 0, ran.err
    assert house.kept() == []
    assert house.servers.alive() == []


@pytest.mark.parametrize("error", [fail, Killed], ids=["fails", "dies"])
@pytest.mark.parametrize(("situation", "at", "when"), CASES)
def test_up_and_down_converge_after(
    house: House, situation: str, at: int, when: When, error: Callable[[], BaseException]
) -> None:
    before, command = SITUATIONS[situation]
    command = _command(house, command)
    wanted = command if command != DOWN else FIRST
    for aftermath in (lambda: _converges(house, wanted), lambda: _converges(house, FIRST), lambda: None):
        for argv in before:
            house.lmi(*argv)
        trouble = Trouble(at=at, when=when, error=error)
        house.target = lambda target, trouble=trouble: TroubledTarget(target, trouble)
        if error is Killed:
            with pytest.raises(Killed):
                house.lmi(*command)
        else:
            ran = house.lmi(*command)
            assert (ran.code, ran.out) == (1, "")
            assert "error: the step failed\n  next: this is a test" in ran.err
        house.target = lambda target: target
        aftermath()
        _ends(house)
        house.environments.made.clear()
        house.hub.cached.clear()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("situation", ["first up", "changed recipe", "another address"])
def test_a_death_while_the_new_generation_is_recorded(house: House, situation: str, when: When) -> None:
    before, command = SITUATIONS[situation]
    wanted = _command(house, command)
    for argv in before:
        house.lmi(*argv)
    house.journal = lambda journal: KilledAtSettling(journal, when)
    with pytest.raises(Killed):
        house.lmi(*wanted)
    house.journal = lambda journal: journal
    _converges(house, wanted)
    _ends(house)
