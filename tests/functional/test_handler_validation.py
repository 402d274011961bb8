"""The user's model.py is checked before anything is planned with it."""

from __future__ import annotations

from pathlib import Path

from tests.support.local_app import RECIPE, LocalApp

OWN = RECIPE + 'handler: {file: mine/model.py}\nprobe: {body: "{}"}\n'
FINE = "from djl_python import Output\n\ndef handle(inputs):\n    return Output().add('OK')\n"


def write(code: str) -> None:
    Path("tiny.yaml").write_text(OWN)
    Path("mine").mkdir(exist_ok=True)
    Path("mine/model.py").write_text(code)


def test_handler_the_server_would_refuse_is_refused_with_its_line(app: LocalApp) -> None:
    write("import os\n\ndef handle():\n    return {}\n")
    for command in ("plan", "up"):
        result = app.lmi(command, *(["--yes"] if command == "up" else []))
        assert (result.code, result.out) == (2, "")
        assert "mine/model.py:3: handle() cannot be called with one argument" in result.err
        assert "mine/model.py:4: returns a dict" in result.err
        assert "write `def handle(inputs)`" in result.err
    assert app.artifacts_left() == []


def test_validate_reads_the_handler(app: LocalApp) -> None:
    write("import somewhere\n\ndef handle():\n    return {}\n")
    result = app.lmi("validate", "tiny.yaml")
    assert (result.code, result.out) == (2, "")
    assert "tiny.yaml:5:11: handler.file: mine/model.py:3: handle() cannot be called with one" in result.err
    assert "mine/model.py:4: returns a dict" in result.err
    write(f"import somewhere\n{FINE}")
    result = app.lmi("validate", "tiny.yaml", "--set", "options.async_mode=true")
    assert "handle is not asynchronous" in result.err
    result = app.lmi("validate", "tiny.yaml")
    assert result.code == 0
    assert "tiny.yaml: mine/model.py:1: imports somewhere, which is neither" in result.err
    result = app.lmi("validate", "tiny.yaml", "--set", "engine=sglang")
    assert "tiny.yaml:5:11: handler.file: engine sglang is a server of its own" in result.err


def test_handler_warnings_and_checks_are_reported(app: LocalApp) -> None:
    write(f"import somewhere\n{FINE}")
    result = app.lmi("plan")
    assert result.code == 0
    assert "mine/model.py:1: imports somewhere, which is neither" in result.err
    assert "mine/model.py: checked by its syntax tree" in result.err
    response = app.lmi("plan", "--json")
    assert any("checked by its syntax tree" in line.get("text", "") for line in response.lines)
    assert app.lmi("up", "--yes").code == 0
    assert "model.py" not in app.lmi("plan").err, "nothing changes"


def test_sync_handler_in_async_mode_is_refused(app: LocalApp) -> None:
    write(FINE)
    result = app.lmi("plan", "--set", "options.async_mode=true")
    assert result.code == 2
    assert "handle is not asynchronous" in result.err


def test_recipe_without_own_code_reports_no_handler_check(app: LocalApp) -> None:
    assert "model.py" not in app.lmi("plan").err


def test_failed_start_is_diagnosed(app: LocalApp) -> None:
    from tests.support.fake_servers import Behaviour

    why = "the worker ended\nTraceback (most recent call last):\nModuleNotFoundError: No module named 'flash_attn'"
    app.servers.next.append(Behaviour(end="failed", why=why))
    result = app.lmi("up", "--yes")
    assert result.code == 1
    assert "The package flash_attn, which the code imports, is not installed" in result.err
    assert "next: Add the package of flash_attn" in result.err
    assert "`lmi explain module-not-found`" in result.err
    status = app.lmi("status", "tiny")
    assert status.code == 1
    assert "flash_attn" in status.out
    assert "[next: Add the package of flash_attn" in app.lmi("logs", "tiny").err
