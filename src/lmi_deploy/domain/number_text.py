"""Numbers in the form that people read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmi_deploy.domain.byte_units import GIB

if TYPE_CHECKING:
    from datetime import datetime

_UNITS = ("B", "kB", "MB", "GB", "TB")


def size_text(count: float) -> str:
    """Bytes with a decimal unit, three significant digits."""
    value, unit = float(count), 0
    while round(value) >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    # The limits are where rounding would add a digit: 9.999 is 10.0, not 10.00.
    digits = 0 if unit == 0 or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f} {_UNITS[unit]}"


def gib_text(count: float, digits: int = 1) -> str:
    """Memory, in the unit of the vendors of devices."""
    return f"{count / GIB:.{digits}f} GiB"


def seconds_text(seconds: float) -> str:
    """A duration: `0.42 s`, `12.3 s`, `3 min 05 s`, `2 h 04 min`."""
    if seconds < 0.995:
        return f"{seconds:.2f} s"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def counted(count: int, one: str, more: str = "") -> str:
    """`1 action`, `2 actions`; `more` if an s is not enough."""
    return f"{count} {one if count == 1 else more or one + 's'}"


def relative_time(moment: str, now: datetime) -> str:
    """`29 min ago`, `in 3 h`; a date if it is more than a month away, and any text that is no time unchanged."""
    from datetime import datetime  # not above: `lmi validate` shows no time

    try:
        seconds = (now - datetime.fromisoformat(moment)).total_seconds()
    except (TypeError, ValueError):
        return moment
    distance = abs(seconds)
    for size, unit, most in (
        (1, "s", 60),
        (60, "min", 3600),
        (3600, "h", 48 * 3600),
        (86400, "d", 31 * 86400),
    ):
        if seconds >= 0 and distance < most:
            return f"{distance // size:.0f} {unit} ago"
        nearest = int(distance / size + 0.5)  # 8 hours less the seconds since then are still "in 8 h"
        if seconds < 0 and nearest * size < most:
            return f"in {nearest} {unit}"
    return moment[:10]
