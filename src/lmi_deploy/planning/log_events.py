"""The failures that a log shows, found by its structure alone: tracebacks and their chains, Java's causes, ends of
processes, and lines at level ERROR."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from lmi_deploy.planning.log_lines import ParsedLine
from lmi_deploy.planning.log_words import ENDS, FAILING, SAID

EventKind = Literal["traceback", "java", "exception", "end", "error", "sentence"]
"""`end`: how a process ended; `sentence`: words of failure at no level."""

_CONTINUED: Final = 12
"""Lines of a message after its first."""
_NEAR: Final = 8
"""Lines between two of a message: other processes write between them."""
_START: Final = re.compile(r"Traceback \(most recent call last\)")
_FRAME: Final = re.compile(r'^\s+File "(?P<path>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>\S+))?')
_GROUP: Final = re.compile(r"^\s*[|+](?:-[+-]*)? ?(?=.)")
_NAMED: Final = re.compile(
    r"^(?:\[ERROR\] |[Ee]rror: |ERROR[:]+ ?)?(?P<class>(?:[A-Za-z_]\w*\.)*[A-Z]\w*"
    r"(?:Error|Exception|Exit|Interrupt|Failure|Fault|NotFound|Timeout|Throttled|IsEnabled|Died|Refused|Expired|Invalid"
    r"|Exceeded|Unavailable|Denied|InUse|Capacity|Unauthorized))"
    r"(?: \(HTTP \d+\))?(?::\s|$|\s*\(|\s+ErrorCode)"
)
_RAISED: Final = re.compile(r"^(?P<class>[A-Za-z_][\w.]*)(?::\s.*|\s*)$")
_LATER: Final = re.compile(
    r"^(?P<handling>During handling of the above exception|The above exception was the direct cause)"
)
_JAVA: Final = re.compile(
    r"^(?:.{0,200}?\s)??(?P<class>(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error|Throwable))(?::\s|$)"
)
_CAUSED: Final = re.compile(r"^\s*Caused by: (?P<class>[\w.$]+)")
_JAVA_FRAME: Final = re.compile(r"^\s+(?:at [\w.$/]+[(<]|\.\.\. \d+ more|Suppressed: )")
_WHAT: Final = re.compile(r"^\s*what\(\):\s")
_TERMINATED: Final = re.compile(r"^terminate called after throwing")
_HEADING: Final = re.compile(r"Last error:")
"""Of NCCL's message: the error is in the next line."""
_WARNED: Final = re.compile(r"^(?:.{0,200}:\d+: )?\w*Warning\b")


@dataclass(slots=True)
class LogEvent:
    """`text` is the first line of the message, without prefixes; `message` joins it with the lines that follow."""

    kind: EventKind
    line: int
    text: str
    speaker: str
    exception: str = ""
    handled: bool = False
    """Logged below level ERROR."""
    chain: int = 0
    """Exceptions of one traceback, or one Java stack, share it."""
    depth: int = 0
    """0 for the innermost one of its chain."""
    probing: bool = False
    """The next exception of the chain was raised while this one was handled, not because of it."""
    heading: bool = False
    """The line of a log entry that a traceback follows."""
    frames: tuple[tuple[str, int, str], ...] = ()
    more: list[tuple[int, str]] = field(default_factory=list)

    @property
    def message(self) -> str:
        return " ".join([self.text, *(text.strip() for _, text in self.more)])

    @property
    def place(self) -> str:
        """The innermost frame in a package: file, line and function."""
        packaged = [
            each for each in self.frames if "site-packages/" in each[0] or "dist-packages/" in each[0]
        ]
        path, line, function = (packaged or self.frames or (("", 0, ""),))[-1]
        short = re.split(r"(?:site|dist)-packages/", path)[-1]
        return f"{short}:{line}" + (f" in {function}" if function else "") if short else ""


def read_events(lines: Iterable[ParsedLine]) -> list[LogEvent]:
    """Every failure, in the order of the log; a line belongs to one event at most."""
    streams: dict[str, _Stream] = {}
    events: list[LogEvent] = []
    for line in lines:
        stream = streams.setdefault(line.speaker, _Stream(number=len(streams) + 1))
        events += stream.read(line)
    events.sort(key=lambda event: event.line)
    return [each for chain in _chains(events) for each in chain]


def _chains(events: list[LogEvent]) -> Iterator[list[LogEvent]]:
    """Depths: Python prints the innermost first, Java last."""
    chains: dict[int, list[LogEvent]] = {}
    for event in events:
        chains.setdefault(event.chain, []).append(event)
    for chain in chains.values():
        inner_first = chain[::-1] if any(event.kind == "java" for event in chain) else chain
        inner_first = sorted(inner_first, key=lambda event: event.heading)
        for depth, event in enumerate(inner_first):
            event.depth = depth
        yield chain


@dataclass(slots=True)
class _Stream:
    """What one process writes."""

    number: int
    frames: list[tuple[str, int, str]] = field(default_factory=list)
    inside: bool = False
    last: LogEvent | None = None
    later: bool = False
    """A line announced that the next traceback belongs to the same chain."""
    chains: int = 0
    java: bool = False

    def read(self, line: ParsedLine) -> Iterator[LogEvent]:
        text = _GROUP.sub("", line.text) if line.text.lstrip()[:1] in ("|", "+") else line.text
        if _START.search(text):
            self.inside, self.frames = True, []
            self.later = self.later or self._headed(line)
        elif self.inside:
            yield from self._in_traceback(line, text)
        elif self.last is not None and (later := _LATER.match(text.strip())):
            self.later = True
            self.last.probing = later["handling"].startswith("During")
        elif caused := _CAUSED.match(text):
            yield self._event(
                "java", line, text.strip().removeprefix("Caused by: "), caused["class"], same=self.java
            )
        elif _JAVA_FRAME.match(text):
            self.java = self.java or (self.last is not None and self.last.kind == "java")
        else:
            yield from self._outside(line, text)

    def _in_traceback(self, line: ParsedLine, text: str) -> Iterator[LogEvent]:
        if frame := _FRAME.match(text):
            self.frames.append((frame["path"], int(frame["line"]), frame["function"] or ""))
        elif text.strip() and not text.startswith((" ", "\t")):
            raised = _NAMED.match(text) or _RAISED.match(text)
            self.inside = False
            same, self.later = self.later, False
            yield self._event("traceback", line, text, raised["class"] if raised else "", same=same)

    def _outside(self, line: ParsedLine, text: str) -> Iterator[LogEvent]:
        named = _NAMED.match(text.strip())
        kind = _kind(line, text, named=named is not None)
        if kind == "java" or (kind and kind != "sentence"):
            self.later = False
            java = _JAVA.match(text.strip()) if kind == "java" else None
            exception = java["class"] if java else named["class"] if named else ""
            same = self._headed(line) if kind == "java" else self._thrown(line, text)
            yield self._event(kind, line, text.strip(), exception, same=same)
        elif self.last is not None and self._continues(line, text):
            self.last.more.append((line.number, text))
        elif kind and text.strip():
            yield self._event(kind, line, text.strip(), "", same=False)

    def _headed(self, line: ParsedLine) -> bool:
        """Whether the line before, at level ERROR, is the headline of this stack."""
        headed = self.last is not None and self.last.kind == "error" and line.number - self.last.line == 1
        if self.last is not None and headed:
            self.last.heading = True
        return headed

    def _thrown(self, line: ParsedLine, text: str) -> bool:
        """Whether the line is the message of the C++ exception that the line before only names."""
        last = self.last
        if last is None or not (_WHAT.match(text) and _TERMINATED.match(last.text)):
            return False
        last.heading = line.number - last.line == 1
        return last.heading

    def _continues(self, line: ParsedLine, text: str) -> bool:
        """Whether the line is the next one of the last event's message."""
        last = self.last
        if (
            last is None
            or last.kind not in ("traceback", "exception", "end")
            or line.severity not in ("", "error")
        ):
            return False
        before = last.more[-1][0] if last.more else last.line
        return bool(text.strip()) and line.number - before <= _NEAR and len(last.more) < _CONTINUED

    def _event(self, kind: EventKind, line: ParsedLine, text: str, exception: str, *, same: bool) -> LogEvent:
        if not same:
            self.chains += 1
            self.java = False
        event = LogEvent(
            kind=kind,
            line=line.number,
            text=text.strip(),
            speaker=line.speaker,
            exception=exception.rpartition(".")[2],
            handled=line.severity in ("warning", "info"),
            chain=self.number * 1_000_000 + self.chains,
            frames=tuple(self.frames) if kind == "traceback" else (),
        )
        self.last = event
        return event


def _kind(line: ParsedLine, text: str, *, named: bool) -> EventKind | None:
    stripped = text.strip()
    if not stripped or _WARNED.match(stripped) or _HEADING.fullmatch(stripped):
        return None
    if ENDS.search(stripped) or _WHAT.match(text):
        return "end"
    java = _JAVA.match(stripped)
    if java and not text.startswith((" ", "\t")):
        return "java"
    if named:
        return "exception"
    if line.severity == "error" or (line.severity == "" and SAID.match(stripped)):
        return "error"
    return "sentence" if line.severity == "" and FAILING.search(stripped) else None
