"""Timestamps in tags, which every user can write, and durations in text."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lmi_deploy.domain.sagemaker.expiry import duration_text, is_expired, parse_moment

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expired"),
    [
        ("2026-01-02T11:59:59+00:00", True),
        ("2026-01-02T11:59:59", True),
        ("2026-01-02T12:00:01", False),
        ("2026-01-02T13:59:59+02:00", True),
        ("2026-01-02T14:00:01+02:00", False),
        ("2026-01-02T11:59:59Z", True),
        ("tomorrow", False),
        ("", False),
    ],
)
def test_timestamp_without_a_time_zone_is_utc(text: str, *, expired: bool) -> None:
    assert is_expired(text, NOON) == expired


def test_invalid_timestamp_is_none() -> None:
    assert parse_moment("soon") is None
    assert parse_moment("2026-01-02T12:00:00") == NOON


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(60, "1m"), (90, "90s"), (5400, "90m"), (28800, "8h"), (172800, "2d"), (3601, "3601s")],
)
def test_duration_is_formatted_as_in_a_recipe(seconds: int, text: str) -> None:
    assert duration_text(seconds) == text
