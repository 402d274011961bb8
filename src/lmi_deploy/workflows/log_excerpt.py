"""The lines of a log that a diagnosis needs, in bounded memory, whatever the log's length."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from lmi_deploy.errors import UsageRefused
from lmi_deploy.planning.log_lines import LONGEST, is_routine

KEPT: Final = 40_000
"""Lines, at most."""
HEAD: Final = 5_000
TAIL: Final = 5_000
_BEFORE: Final = 60
_AFTER: Final = 60
_BLOCK: Final = 4_096


@dataclass(frozen=True, slots=True)
class LogExcerpt:
    """`lines` have the numbers that they have in the log; `total` counts all of its lines."""

    lines: list[tuple[int, str]]
    total: int


def read_log(path: Path) -> LogExcerpt:
    """UsageRefused if the file cannot be read, or is no text."""
    try:
        with path.open("rb") as file:
            return excerpt(decoded_lines(file, str(path)))
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageRefused(
            f"{path}: {reason[:1].lower()}{reason[1:]}", hint="name a log file, or - for standard input"
        ) from None


def decoded_lines(file: BinaryIO, name: str) -> Iterator[str]:
    """The lines of a binary stream, each cut to what a diagnosis looks at; one of gigabytes costs no memory."""
    first = True
    continued = False
    while block := file.readline(_BLOCK):
        if first:
            _require_text(block, name)
            first = False
        if not continued:
            yield block.decode("utf-8", "replace").rstrip("\r\n")[:LONGEST]
        continued = not block.endswith(b"\n")


def _require_text(block: bytes, name: str) -> None:
    if block.startswith(b"\x1f\x8b"):
        raise UsageRefused(
            f"{name}: a gzip archive, not a log", hint=f"run `zcat {name} | lmi diagnose --log -`"
        )
    if b"\0" in block:
        raise UsageRefused(
            f"{name}: a binary file, not a log", hint="give the text that the server printed, in UTF-8"
        )


def excerpt(lines: Iterable[str]) -> LogExcerpt:
    """The head, the tail, and what is around every line that may be a failure; of too many the first ones."""
    kept: list[tuple[int, str]] = []
    before: deque[tuple[int, str]] = deque(maxlen=_BEFORE)
    tail: deque[tuple[int, str]] = deque(maxlen=TAIL)
    total = following = 0
    for total, line in enumerate(lines, start=1):
        numbered = total, line[:LONGEST]
        if len(kept) >= KEPT - TAIL:
            tail.append(numbered)
            continue
        following = _AFTER if not is_routine(line) else following - 1
        if total <= HEAD:
            kept.append(numbered)
        elif following > 0:
            kept += [*before, numbered]
            before.clear()
        else:
            if len(before) == _BEFORE:
                tail.append(before[0])
            before.append(numbered)
    rest = [*tail, *before]
    return LogExcerpt(lines=sorted({*kept, *rest}), total=total)
