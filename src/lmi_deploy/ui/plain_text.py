"""Text from other programs, harmless for a terminal."""

from __future__ import annotations

import re


def plain(text: str) -> str:
    """Without control sequences for the terminal."""
    text = re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)", "", text)
    return "".join(char if char in "\n\t" or _is_printable(char) else "?" for char in text if char != "\x7f")


def _is_printable(char: str) -> bool:
    """Neither of the two blocks of control characters; the second has its own CSI, which some terminals obey."""
    return char >= " " and not "\x7f" <= char <= "\x9f"
