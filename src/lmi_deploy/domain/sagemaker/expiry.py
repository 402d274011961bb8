"""The expiry of a deployment: the text of its tag `lmi:expires-at`, and a time to live in words."""

from __future__ import annotations

from datetime import UTC, datetime

_UNITS = (("d", 86400), ("h", 3600), ("m", 60))


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
