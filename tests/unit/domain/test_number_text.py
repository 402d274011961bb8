"""Numbers formatted for people."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lmi_deploy.domain.number_text import counted, gib_text, relative_time, seconds_text, size_text


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
def test_size_text(count: float, words: str) -> None:
    assert size_text(count) == words


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
def test_duration_text(seconds: float, words: str) -> None:
    assert seconds_text(seconds) == words


@pytest.mark.parametrize(
    ("count", "more", "words"), [(1, "", "1 entry"), (2, "entries", "2 entries"), (0, "entries", "0 entries")]
)
def test_counted_noun_agrees_with_its_number(count: int, more: str, words: str) -> None:
    assert counted(count, "entry", more) == words


def test_memory_is_in_binary_units() -> None:
    assert (gib_text(23.5 * 2**30), gib_text(2**30 / 3, 2)) == ("23.5 GiB", "0.33 GiB")


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        ("2026-11-23T11:59:40Z", "20 s ago"),
        ("2026-11-23T11:31:00+00:00", "29 min ago"),
        ("2026-11-23T15:00:00Z", "in 3 h"),
        ("2026-11-23T19:59:55Z", "in 8 h"),
        ("2026-11-23T12:59:50Z", "in 1 h"),
        ("2026-11-23T12:00:59.8Z", "in 1 min"),
        ("2026-11-23T04:00:01Z", "7 h ago"),
        ("2026-11-20T12:00:00Z", "3 d ago"),
        ("2026-01-02T12:00:00Z", "2026-01-02"),
        ("no time", "no time"),
        ("2026-11-23", "2026-11-23"),
    ],
)
def test_moment_is_shown_by_its_distance(moment: str, text: str) -> None:
    assert relative_time(moment, datetime(2026, 11, 23, 12, tzinfo=UTC)) == text
