"""Numbers as people read them, and other people's text made harmless."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.ui.number_format import counted, plain, size, span


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (12_345, "12.3 kB"),
        (123_456, "123 kB"),
        (269_060_552, "269 MB"),
        (5.5e9, "5.50 GB"),
        (9.99e15, "9990 TB"),
        (999_999, "1.00 MB"),
        (9_999, "10.0 kB"),
    ],
)
def test_sizes(count: float, words: str) -> None:
    assert size(count) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0.00 s"),
        (0.42, "0.42 s"),
        (0.999, "1.0 s"),
        (12.34, "12.3 s"),
        (59.96, "1 min 00 s"),
        (60, "1 min 00 s"),
        (185, "3 min 05 s"),
        (3599.7, "1 h 00 min"),
        (7440, "2 h 04 min"),
    ],
)
def test_spans(seconds: float, words: str) -> None:
    assert span(seconds) == words


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
def test_text_that_could_drive_a_terminal(text: str, shown: str) -> None:
    assert plain(text) == shown


@given(st.text())
def test_nothing_that_drives_a_terminal_is_left(text: str) -> None:
    assert all(char in "\n\t" or (char >= " " and not "\x7f" <= char <= "\x9f") for char in plain(text))
    assert plain(plain(text)) == plain(text)


@pytest.mark.parametrize(
    ("count", "more", "words"), [(1, "", "1 entry"), (2, "entries", "2 entries"), (0, "entries", "0 entries")]
)
def test_what_is_counted_agrees_with_its_number(count: int, more: str, words: str) -> None:
    assert counted(count, "entry", more) == words
