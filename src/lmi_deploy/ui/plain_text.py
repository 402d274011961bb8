"""Text from other programs, harmless for a terminal and for the log of a CI job."""

from __future__ import annotations

import re
from typing import Any, Final, TextIO

_COMMAND: Final = re.compile(r"(?m)^(\s*):(?=:)|##(?=\[)|section_(?=(?:start|end):)")
"""As GitHub's runner finds its commands: a line that begins with `::` after blanks, and `##[` anywhere; and GitLab's
markers of sections.
"""


def plain(text: str) -> str:
    """Without control sequences for the terminal."""
    text = re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)", "", text)
    return "".join(char if char in "\n\t" or _is_printable(char) else "?" for char in text if char != "\x7f")


class WithoutCommands:
    """A stream on which nothing is a command for a CI system: a space divides what would be one."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(_COMMAND.sub(lambda found: f"{found[0]} ", text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _is_printable(char: str) -> bool:
    """Neither of the two blocks of control characters; the second has its own CSI, which some terminals obey."""
    return char >= " " and not "\x7f" <= char <= "\x9f"
