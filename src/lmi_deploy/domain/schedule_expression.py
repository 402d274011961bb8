"""Schedules of Application Auto Scaling: `at(...)`, `rate(...)` and `cron(...)`, and when each is due.

Sources: Application Auto Scaling user guide, "Schedule recurring scaling actions using cron expressions" (six fields,
their values and wildcards, `?` in one of the two day fields); its API reference, PutScheduledAction, Schedule and
Timezone. Read in November 2026.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import tzinfo

_AT: Final = re.compile(r"at\((\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\)")
_RATE: Final = re.compile(r"rate\(([1-9]\d{0,5}) (minute|minutes|hour|hours|day|days)\)")
_CRON: Final = re.compile(r"cron\(([^()]*)\)")
_MINUTES: Final = {"minute": 1, "hour": 60, "day": 1440}
_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    @property
    def values(self) -> str:
        named = f" or {self.names[0]} to {self.names[-1]}" if self.names else ""
        return f"{self.low} to {self.high}{named}"


_FIELDS: Final = (
    _Field("minutes", 0, 59),
    _Field("hours", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 1, 7, _DAYS),
    _Field("year", 1970, 2199),
)


def schedule_error(expression: str) -> str:
    """Why Application Auto Scaling refuses this schedule; empty if it accepts it."""
    if match := _AT.fullmatch(expression):
        try:
            datetime.fromisoformat(match[1])
        except ValueError as exc:
            return str(exc)
        return ""
    if match := _RATE.fullmatch(expression):
        unit = match[2].removesuffix("s") + "s" * (match[1] != "1")
        return "" if match[2] == unit else f"write {match[1]} {unit}"
    if match := _CRON.fullmatch(expression):
        return _cron_error(match[1].split())
    return "it is not at(yyyy-mm-ddThh:mm:ss), rate(VALUE UNIT) or cron(FIELDS)"


def timezone_error(name: str) -> str:
    """Why this is no time zone; empty if it is one, or if this machine has no list of them."""
    from zoneinfo import available_timezones  # reads a folder: only a recipe that names one need wait for it

    known = available_timezones()
    return "" if not known or name in known else "no time zone of the IANA database has that name"


def is_due(expression: str, zone: tzinfo, *, after: datetime, until: datetime, created: datetime) -> bool:
    """Whether the schedule has a time in (after, until]. The two are at most a few minutes apart."""
    if match := _AT.fullmatch(expression):
        return after < datetime.fromisoformat(match[1]).replace(tzinfo=zone) <= until
    if match := _RATE.fullmatch(expression):
        period = timedelta(minutes=int(match[1]) * _MINUTES[match[2].removesuffix("s")])
        return (until - created) // period > max((after - created) // period, 0)
    match = _CRON.fullmatch(expression)
    fields = match[1].split() if match else []
    minute = until.replace(second=0, microsecond=0)
    while minute > after:
        if _matches(fields, minute.astimezone(zone)):
            return True
        minute -= timedelta(minutes=1)
    return False


def _cron_error(fields: list[str]) -> str:
    if len(fields) != len(_FIELDS):
        return f"cron has {len(fields)} fields, not the 6: minutes, hours, day of month, month, day of week, year"
    if [fields[2], fields[4]].count("?") != 1:
        return "exactly one of day of month and day of week must be ?"
    for declared, text in zip(_FIELDS, fields, strict=True):
        for part in text.split(","):
            if not _is_valid(declared, part):
                return f"{text} is not valid for {declared.name}, {declared.values}"
    return ""


def _is_valid(declared: _Field, part: str) -> bool:
    if part == "?":
        return declared.name.startswith("day")
    if declared.name == "day of month" and re.fullmatch(r"L|LW|([1-9]|[12]\d|3[01])W", part):
        return True
    if declared.name == "day of week" and re.fullmatch(r"L|[1-7](L|#[1-5])", part):
        return True
    span, _, step = part.partition("/")
    if "/" in part and not re.fullmatch(r"[1-9]\d{0,3}", step):
        return False
    if span == "*":
        return True
    ends = [_number(declared, end) for end in span.split("-")]
    valid = len(ends) <= 2 and all(end is not None and declared.low <= end <= declared.high for end in ends)
    return valid and sorted(ends, key=lambda end: end or 0) == ends


def _number(declared: _Field, text: str) -> int | None:
    if text.upper() in declared.names:
        return declared.names.index(text.upper()) + 1
    return int(text) if re.fullmatch(r"\d{1,4}", text) else None


def _matches(fields: list[str], moment: datetime) -> bool:
    weekday = moment.isoweekday() % 7 + 1
    values = (moment.minute, moment.hour, moment.day, moment.month, weekday, moment.year)
    return all(
        any(_part_matches(declared, part, value, moment) for part in text.split(","))
        for declared, text, value in zip(_FIELDS, fields, values, strict=True)
    )


def _part_matches(declared: _Field, part: str, value: int, moment: datetime) -> bool:
    if part in ("*", "?"):
        return True
    last = _last_day(moment)
    if declared.name == "day of month" and part.endswith(("L", "W")):
        return value == _special_day(part, moment, last)
    if declared.name == "day of week" and part.endswith("L"):
        return value == int(part.removesuffix("L") or 7) and (part == "L" or moment.day > last - 7)
    if "#" in part:
        day, _, which = part.partition("#")
        return value == int(day) and (moment.day - 1) // 7 + 1 == int(which)
    span, _, step = part.partition("/")
    ends = [_number(declared, end) or 0 for end in span.split("-")] if span != "*" else [declared.low]
    high = ends[-1] if len(ends) == 2 or not step else declared.high
    return ends[0] <= value <= high and (value - ends[0]) % int(step or 1) == 0


def _last_day(moment: datetime) -> int:
    return (moment.replace(day=28) + timedelta(days=4)).replace(day=1).toordinal() - moment.replace(
        day=1
    ).toordinal()


def _special_day(part: str, moment: datetime, last: int) -> int:
    """The last day of the month, or the weekday nearest to a day of the same month."""
    if part == "L":
        return last
    day = last if part == "LW" else min(int(part[:-1]), last)
    weekday = moment.replace(day=day).isoweekday()
    if weekday == 6:
        return day - 1 if day > 1 else day + 2
    if weekday == 7:
        return day + 1 if day < last else day - 2
    return day
