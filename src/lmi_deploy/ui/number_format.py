"""Numbers in the form that people read."""

from __future__ import annotations

import re

_UNITS = ("B", "kB", "MB", "GB", "TB")


def size(count: float) -> str:
    """Bytes with a decimal unit, three significant digits."""
    value, unit = float(count), 0
    while round(value) >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    # The limits are where rounding would add a digit: 9.999 is 10.0, not 10.00.
    digits = 0 if unit == 0 or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f} {_UNITS[unit]}"


def span(seconds: float) -> str:
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


def plain(text: str) -> str:
    """Text from other programs, without control sequences for the terminal."""
    text = re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)", "", text)
    return "".join(char if char in "\n\t" or _printable(char) else "?" for char in text if char != "\x7f")


def _printable(char: str) -> bool:
    """Neither of the two blocks of control characters; the second has its own CSI, which some terminals obey."""
    return char >= " " and not "\x7f" <= char <= "\x9f"
