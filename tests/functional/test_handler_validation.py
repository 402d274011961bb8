"""A user's own model.py is judged before anything is planned with it."""

from __future__ import annotations

from pathlib import Path

from tests.support.local_app import RECIPE, House

OWN = RECIPE + 'handler: {file: mine/model.py}\nprobe: {body: "{}"}\n'
FINE = "from djl_python import Output\n\ndef handle(inputs):\n    return Output().add('OK')\n"


def write(code: str) -> None:
    Path("tiny.yaml").write_text(OWN)
    Path("mine").mkdir(exist_ok=True)
    Path("mine/model.py").write_text(code)


def test_what_the_server_would_refuse_is_refused_with_its_line(house: House) -> None:
    write("import os\n\ndef handle():\n    return {}\n")
    for command in ("plan", "up"):
        ran = house.lmi(command, *(["--yes"] if command == "up" else []))
        assert (ran.code, ran.out) == (2, "")
        assert "mine/model.py:3: handle() cannot be called with one argument" in ran.err
        assert "mine/model.py:4: returns a dict" in ran.err
        assert "write `def handle(inputs)`" in ran.err
    assert house.kept() == []


def test_warnings_and_the_checks_that_ran_are_told(house: House) -> None:
    write(f"import somewhere\n{FINE}")
    ran = house.lmi("plan")
    assert ran.code == 0
    assert "mine/model.py:1: imports somewhere, which neither" in ran.err
    assert "mine/model.py: checked by its syntax tree" in ran.err
    told = house.lmi("plan", "--json")
    assert any("checked by its syntax tree" in line.get("text", "") for line in told.lines)
    assert house.lmi("up", "--yes").code == 0
    assert "model.py" not in house.lmi("plan").err, "nothing changes"


def test_a_sync_handler_in_asynchronous_mode_is_refused(house: House) -> None:
    write(FINE)
    ran = house.lmi("plan", "--set", "options.async_mode=true")
    assert ran.code == 2
    assert "handle is not asynchronous" in ran.err


def test_without_code_of_ones_own_nothing_is_said(house: House) -> None:
    assert "model.py" not in house.lmi("plan").err


def test_a_failed_start_is_explained(house: House) -> None:
    from tests.support.fake_servers import Behaviour

    why = "the worker ended\nTraceback (most recent call last):\nModuleNotFoundError: No module named 'flash_attn'"
    house.servers.next.append(Behaviour(end="failed", why=why))
    ran = house.lmi("up", "--yes")
    assert ran.code == 1
    assert "The package flash_attn, which the code imports, is not installed" in ran.err
    assert "next: Add what brings flash_attn" in ran.err
    assert "docs/reference/failures.md#module-not-found" in ran.err
    status = house.lmi("status", "tiny")
    assert status.code == 1
    assert "flash_attn" in status.out
    assert "[next: Add what brings flash_attn" in house.lmi("logs", "tiny").err
