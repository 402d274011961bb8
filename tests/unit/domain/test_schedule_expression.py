"""Schedules of Application Auto Scaling: which are valid, and when they are due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.domain.schedule_expression import is_due, schedule_error, timezone_error


def due(expression: str, moment: str, *, minutes: int = 1, created: str = "2026-01-01T00:00") -> bool:
    until = datetime.fromisoformat(moment).replace(tzinfo=UTC)
    start = datetime.fromisoformat(created).replace(tzinfo=UTC)
    after = until - timedelta(minutes=minutes)
    return is_due(expression, UTC, after=after, until=until, created=start)


@pytest.mark.parametrize(
    ("expression", "moment"),
    [
        ("cron(0 20 ? * MON-FRI *)", "2026-11-27T20:00"),
        ("cron(*/15 * * * ? *)", "2026-11-27T20:45"),
        ("cron(5/15 * * * ? *)", "2026-11-27T20:35"),
        ("cron(0,30 8-10 * NOV,DEC ? 2026-2027)", "2026-11-28T09:30"),
        ("cron(0 0 L * ? *)", "2028-02-29T00:00"),
        ("cron(0 0 LW * ? *)", "2026-01-30T00:00"),
        ("cron(0 0 1W * ? *)", "2026-08-03T00:00"),
        ("cron(0 0 15W * ? *)", "2026-08-14T00:00"),
        ("cron(0 0 29W * ? *)", "2026-11-30T00:00"),
        ("cron(0 0 ? * 6L *)", "2026-11-27T00:00"),
        ("cron(0 0 ? * L *)", "2026-11-28T00:00"),
        ("cron(0 0 ? * 6#4 *)", "2026-11-27T00:00"),
        ("cron(0 0 ? * sun *)", "2026-11-29T00:00"),
        ("at(2026-11-27T20:00:00)", "2026-11-27T20:00"),
        ("rate(1 minute)", "2026-11-27T20:17"),
        ("rate(12 hours)", "2026-11-27T12:00"),
        ("rate(2 days)", "2026-01-03T00:00"),
    ],
)
def test_schedule_is_due_at_its_minute_and_not_before(expression: str, moment: str) -> None:
    assert schedule_error(expression) == ""
    assert due(expression, moment)
    before = (datetime.fromisoformat(moment) - timedelta(minutes=1)).isoformat()
    assert due(expression, before) == (expression == "rate(1 minute)")


def test_skipped_minutes_count() -> None:
    assert due("cron(0 20 ? * * *)", "2026-11-27T20:03", minutes=5)
    assert not due("cron(0 20 ? * * *)", "2026-11-27T20:03", minutes=3)


def test_rate_counts_from_its_creation() -> None:
    assert due("rate(10 minutes)", "2026-11-27T20:13", created="2026-11-27T20:03")
    assert not due("rate(10 minutes)", "2026-11-27T20:10", created="2026-11-27T20:03")
    assert not due("rate(10 minutes)", "2026-11-27T20:03", created="2026-11-27T20:03")


@pytest.mark.parametrize(
    "expression",
    [
        *("", "cron()", "cron(* * * * *)", "cron(0 20 * * * *)", "cron(0 20 ? * ? *)", "cron(60 * ? * * *)"),
        *("cron(0 20 ? * FRI-MON *)", "cron(0 20 ? 13 * *)", "cron(0 20 ? * 8 *)", "cron(0 20 ? * * 1969)"),
        *("cron(0 */0 ? * * *)", "cron(0 1-2-3 ? * * *)", "cron(? 1 ? * * *)", "cron(0 0 32W * ? *)"),
        *("rate(0 minutes)", "rate(1 minutes)", "rate(2 minute)", "rate(1 week)", "at(2026-13-01T00:00:00)"),
        "at(2026-11-27)",
    ],
)
def test_other_schedules_are_refused(expression: str) -> None:
    assert schedule_error(expression)


def test_refused_day_names_the_days() -> None:
    assert schedule_error("cron(0 8 ? * MO-FR *)") == (
        "MO-FR is not valid for day of week, 1 to 7 or SUN to SAT"
    )


@given(st.text(max_size=40), st.datetimes(datetime(1971, 1, 1), datetime(2190, 1, 1), timezones=st.just(UTC)))
def test_no_text_breaks_the_check(text: str, moment: datetime) -> None:
    for expression in (text, f"cron({text})", f"rate({text})", f"at({text})"):
        if not schedule_error(expression):
            is_due(expression, UTC, after=moment - timedelta(minutes=1), until=moment, created=moment)


def test_time_zones_are_those_of_the_database() -> None:
    assert timezone_error("Europe/Berlin") == ""
    assert bool(timezone_error("Europe/Berlim")) == bool(available_timezones())
