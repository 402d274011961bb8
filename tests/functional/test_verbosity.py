"""`-v`, `-q` and `--debug` mean the same for every command; help shows every default, in groups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from lmi_deploy.cli.command_group import COMMANDS, GROUPS, lmi
from tests.support.local_app import LocalApp


def leaves(group: click.Group = lmi) -> Iterator[click.Command]:
    context = click.Context(group, **lmi.context_settings)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaves(command)
        if command.hidden:  # what a job in AWS runs
            continue
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield command


def test_every_command_has_the_options_of_output() -> None:
    for command in leaves():
        spellings = {each for param in command.params for each in param.opts}
        assert {"--json", "-v", "--verbose", "-q", "--quiet", "--debug"} <= spellings, command.name


def test_every_default_is_shown() -> None:
    for command in leaves():
        for option in command.params:
            if isinstance(option, click.Option) and not option.is_flag and option.to_info_dict()["default"]:
                shown = option.show_default or "[default" in (option.help or "")
                assert shown, f"{command.name} {option.opts}"


def test_help_lists_every_command_once_below_its_heading(app: LocalApp) -> None:
    lines = app.lmi("--help").out.splitlines()
    assert [line.rstrip(":") for line in lines if line.endswith(":")][-len(GROUPS) :] == [*GROUPS]
    listed = [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "]
    assert {*COMMANDS} <= {*listed}
    assert max(map(len, lines)) <= 80


def test_quiet_leaves_only_the_result_and_errors(app: LocalApp) -> None:
    loud, quiet = app.lmi("up", "--yes"), app.lmi("down", "tiny", "--yes", "-q")
    assert "ok  " in loud.err
    assert quiet.code == 0
    assert [line[:4] for line in quiet.err.splitlines()] == ["tiny", "  - ", "  - ", "  - "], "the plan alone"
    assert loud.out.startswith("http://127.0.0.1:")
    assert app.lmi("up", "--yes", "-q").out.startswith("http://127.0.0.1:")
    failed = app.lmi("validate", "nothing.yaml", "-q")
    assert failed.code == 2
    assert failed.err.startswith("error: nothing.yaml")


def test_verbose_shows_the_beginning_of_every_step(app: LocalApp) -> None:
    result = app.lmi("up", "--yes", "-v")
    begun = [line.removeprefix("... ") for line in result.err.splitlines() if line.startswith("... ")]
    ended = [line for line in result.err.splitlines() if line.startswith("ok  ")]
    assert begun
    assert len(begun) == len(ended)


def test_debug_shows_where_an_error_comes_from_and_only_for_its_command(
    app: LocalApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LMI_AWS_REQUESTS", raising=False)
    monkeypatch.setenv("LMI_AWS_REQUESTS", "")
    Path("bad.yaml").write_text("name: X\n")
    result = app.lmi("validate", "bad.yaml", "--debug")
    assert result.code == 2
    assert "Traceback" in result.err
    assert "error: " in result.err
    assert "Traceback" not in app.lmi("validate", "bad.yaml").err


def test_debug_of_a_bug_shows_its_cause(app: LocalApp) -> None:
    app.hub.failure = RuntimeError("http://me:canary@host/ is odd")
    result = app.lmi("plan", "--debug")
    assert result.code == 3
    assert "RuntimeError" in result.err
    assert "canary" not in result.err
