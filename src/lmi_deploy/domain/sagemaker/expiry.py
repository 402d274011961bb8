"""The expiry of a deployment: the text of its tag `lmi:expires-at`, a time to live in words, and the schedule that
deletes the endpoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

_UNITS = (("d", 86400), ("h", 3600), ("m", 60))


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedSchedule:
    """A one-time schedule of EventBridge Scheduler that deletes an endpoint, with `role`, an ARN."""

    name: str
    at: str
    """ISO 8601, UTC."""
    role: str
    enabled: bool


def schedule_name(endpoint: str) -> str:
    """At most 53 of the 64 characters that a name may have."""
    return f"lmi-{endpoint}"


def parse_moment(text: str) -> datetime | None:
    """ISO 8601; UTC if it names no time zone. None if the text is not a time: a tag may have been written by anyone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def is_expired(text: str, now: datetime) -> bool:
    """Whether the moment is past; never for an invalid time."""
    moment = parse_moment(text) if text else None
    return moment is not None and moment < now


def duration_text(seconds: int) -> str:
    """As a recipe writes it: `8h`, `90m`, `3601s`."""
    unit, length = next(((u, n) for u, n in _UNITS if seconds % n == 0 and seconds), ("s", 1))
    return f"{seconds // length}{unit}"
