"""Untrusted text made safe for a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.ui.plain_text import plain


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
