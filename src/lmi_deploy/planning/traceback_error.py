"""The handler's own error in a container's output: the last line of a Python traceback."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_TRACEBACK: Final = "Traceback (most recent call last)"
_ERROR: Final = re.compile(
    r"(?<![\w.])((?!java|ai\.djl)(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt))(: .+|\s*$)"
)
_CHAINED: Final = (
    "During handling of the above exception",
    "was the direct cause of the following exception",
)
REASON: Final = "FailureReason: "
"""How an error's details give DescribeEndpoint's words."""
_GENERIC: Final = "did not pass the ping health check"
"""All that SageMaker reports about a container that exited or never responded, whatever it printed."""


def error_line(lines: Sequence[str]) -> str:
    """The last line of the first traceback, without those that caused it; empty if there is none."""
    found, inside = "", False
    for line in lines:
        if _TRACEBACK in line:
            inside = True
        elif inside and (match := _ERROR.search(line)) and not line.rstrip().endswith(("(", ",")):
            found, inside = (match[1] + match[2]).strip(), False
        elif found and not inside and line.strip() and not any(words in line for words in _CHAINED):
            return found
    return found


def lead_with_error(message: str, lines: Sequence[str]) -> str:
    """`message` with the handler's own error before SageMaker's reason, if that does not contain it."""
    reason = next((line.removeprefix(REASON) for line in reversed(lines) if line.startswith(REASON)), "")
    own = error_line(lines) if reason and _GENERIC in reason else ""
    return message.replace(reason, f"{own} (SageMaker: {reason})") if own else message
