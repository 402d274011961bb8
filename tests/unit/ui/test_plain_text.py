"""Untrusted text made safe for a terminal."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.errors import CloudError
from lmi_deploy.ui.plain_text import WithoutCommands, plain
from lmi_deploy.ui.text_view import human_view


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("grüß\tdich\n", "grüß\tdich\n"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\x00b\rc\x7fd", "a?b?cd"),
        ("\x1b[2", "?[2"),
        ("\x9b31mred", "?31mred"),
    ],
)
def test_terminal_control_sequences_are_removed(text: str, shown: str) -> None:
    assert plain(text) == shown


@given(st.text())
def test_plain_text_contains_no_control_characters(text: str) -> None:
    assert all(char in "\n\t" or (char >= " " and not "\x7f" <= char <= "\x9f") for char in plain(text))
    assert plain(plain(text)) == plain(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("::error::owned\n", ": :error::owned\n"),
        ("first\n  ::add-mask::recipes\n", "first\n  : :add-mask::recipes\n"),
        ("asked: ##[error]owned\n", "asked: ## [error]owned\n"),
        ("\r\x1b[0Ksection_start:1:x\r", "\r\x1b[0Ksection_ start:1:x\r"),
        ("a::b, std::vector\n", "a::b, std::vector\n"),
        ("## heading\n", "## heading\n"),
    ],
)
def test_no_text_is_a_command_for_github(text: str, shown: str) -> None:
    stream = io.StringIO()
    WithoutCommands(stream).write(text)
    assert stream.getvalue() == shown


def test_story_of_a_command_in_github_has_no_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for variable, shown in (("", "::error::x"), ("true", ": :error::x")):
        if variable:
            monkeypatch.setenv("GITHUB_ACTIONS", variable)
        human_view().fail(CloudError("it failed", hint="wait", details=["a\n::error::x"]))
        assert f"\n{shown}\n" in capsys.readouterr().err
