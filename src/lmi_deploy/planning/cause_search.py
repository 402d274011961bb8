"""The causes that a log shows, most likely first: known failures, and those that only the log's structure shows."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lmi_deploy.planning.cause_explanation import Explanation, explain_event
from lmi_deploy.planning.failure_cause import Cause, Confidence
from lmi_deploy.planning.log_diagnosis import (
    UNKNOWN,
    Diagnosis,
    DiagnosisContext,
    diagnose_by_facts,
    known_causes,
    noise_lines,
    restart_lines,
)
from lmi_deploy.planning.log_events import LogEvent, read_events
from lmi_deploy.planning.log_lines import is_routine, read_line
from lmi_deploy.planning.log_words import BENIGN, SERVICE, WRAPPERS

NumberedLine = tuple[int, str]
MOST: Final = 5
"""Causes of one log."""

_CONSEQUENCES: Final = frozenset(
    {
        *("BrokenPipeError", "EOFError", "ConnectionResetError", "KeyboardInterrupt", "SystemExit"),
        *("CancelledError", "CalledProcessError", "ChildFailedError", "EngineDeadError", "EngineException"),
        *("ExecutionException", "CompletionException", "TranslateException", "RemoteDisconnected"),
        *("ActorDiedError", "WorkerCrashedError", "ProcessRaisedException", "BrokenProcessPool"),
        "SubprocessError",
    }
)
_PROBES: Final = frozenset(
    ("KeyError", "AttributeError", "StopIteration", "IndexError", "HTTPError", "HTTPStatusError")
)
"""Often caught on purpose: what is raised while they are handled says more."""
_NOT_LAST: Final = re.compile(
    rf"{BENIGN.pattern}|{WRAPPERS.pattern}|^\s+(?:File |at |\^)|^(?:Traceback|Caused by)|(?:Exception|Error)$",
    re.IGNORECASE,
)
_ENDED: Final = re.compile(
    r"died|exited|exit code|terminated|stopped|crashed|stream closed|killed", re.IGNORECASE
)
_SILENT: Final = (
    "A process ended without a message of its own: as a rule it was killed because memory ran out, or it "
    "crashed."
)
_SILENT_REMEDY: Final = (
    "Compare the memory that it used with the instance's. Take more of it, or fewer workers, and look for "
    "Killed in the log."
)
_SILENT_SETTINGS: Final = ("instance_type", "option.swap_space", "maxWorkers")
_SHORT: Final = 3
"""Lines of a log that is only an error message."""
_VALUE: Final = re.compile(r"^(?:Value|Assertion) (?:error|failed), (?P<said>.+)")
_TABLE, _UNCAUGHT, _LINE, _VAGUE, _UNEXPLAINED, _SENTENCE, _UNSAID, _WRAPPER = range(8)
"""How much a line says about the cause, from a known failure to a wrapper."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    rank: int
    run: int
    line: int
    cause: Cause
    start: int
    """The first line of its chain, or of the log entry that shows it."""

    @property
    def order(self) -> tuple[bool, int, int, int]:
        return self.rank == _WRAPPER, self.run, max(self.rank, _UNCAUGHT), self.line


def find_causes(
    lines: Sequence[str] | Sequence[NumberedLine], around: DiagnosisContext = UNKNOWN
) -> list[Cause]:
    """The most likely first; none if the log shows no failure. Failures after a worker's restart come last: they may be
    consequences. `lines` may have their numbers in a longer log."""
    pairs = (each if isinstance(each, tuple) else (at, each) for at, each in enumerate(lines, start=1))
    numbered = [(number, text) for number, text in pairs if not is_routine(text)]
    numbers, texts = [number for number, _ in numbered], [text for _, text in numbered]
    search = _Search(numbers, texts, around)
    found = sorted(search.candidates(), key=lambda each: each.order)
    wrappers = [each for each in found if each.rank == _WRAPPER]
    first = min(wrappers, key=lambda each: each.line, default=None)
    if first is not None and all(each.run > first.run for each in found if each.rank < _WRAPPER):
        found = [*filter(None, [search.before(first) or search.silent_end(wrappers, first.run)]), *found]
    if not found and (by_fact := diagnose_by_facts(around)):
        return [_known(by_fact, by_fact.line, "medium")]
    causes: dict[str, Cause] = {}
    for each in found:
        causes.setdefault(_echo(each.cause.evidence), each.cause)
    kept = [each for each in causes.values() if not each.wrapper] or list(causes.values())[:1]
    return kept[:MOST]


class _Search:
    def __init__(self, numbers: Sequence[int], texts: Sequence[str], around: DiagnosisContext) -> None:
        self.numbers = numbers
        self.texts = texts
        self.restarts = [numbers[at] for at in restart_lines(texts)]
        self.harmless = {numbers[at] for at in noise_lines(texts, around)}
        self.known = {numbers[each.line - 1]: each for each in known_causes(texts, around)}
        self.at = {number: index for index, number in enumerate(numbers)}

    def candidates(self) -> Iterator[_Candidate]:
        for number, found in self.known.items():
            rank = _WRAPPER if found.wrapper else _VAGUE if found.weak else _TABLE
            if number in self.restarts and not found.wrapper:
                rank = _UNSAID
            yield _Candidate(
                rank, self._run(number), number, _known(found, number, "medium" if rank else "high"), number
            )
        lines = (read_line(number, text) for number, text in zip(self.numbers, self.texts, strict=True))
        chains: dict[int, list[LogEvent]] = {}
        for event in read_events(lines):
            benign = event.kind == "sentence" and BENIGN.search(event.text)
            if event.line not in self.harmless and not benign:
                chains.setdefault(event.chain, []).append(event)
        failed = len(self.known) > 0 or any(
            event.kind != "sentence" for chain in chains.values() for event in chain
        )
        for chain in chains.values():
            yield from self._of_chain(sorted(chain, key=lambda event: event.depth), failed=failed)

    def before(self, wrapper: _Candidate) -> _Candidate | None:
        """The last line that the process wrote before one that says that it failed."""
        first = self.restarts[wrapper.run - 1] if wrapper.run else 0
        for at in range(self.at[wrapper.start] - 1, -1, -1):
            number = self.numbers[at]
            if number <= first:
                break
            line = read_line(number, self.texts[at])
            plain = (
                line.severity not in ("info", "warning")
                and number not in self.harmless
                and number not in self.known
            )
            if plain and len(re.findall(r"[A-Za-z]{2,}", line.text)) > 2 and not _NOT_LAST.search(line.text):
                event = LogEvent("sentence", number, line.text.strip(), line.speaker)
                explanation = explain_event(event)
                if not explanation.harmless:
                    return _Candidate(
                        _UNSAID, wrapper.run, number, self._cause(event, explanation, wrapper=False), number
                    )
        return None

    def silent_end(self, wrappers: Sequence[_Candidate], run: int) -> _Candidate | None:
        """The line that says that the process ended, if it wrote nothing about the reason before its restart."""
        ends = [each for each in wrappers if each.run == run and _ENDED.search(each.cause.evidence)]
        first = min(ends, key=lambda each: each.line, default=None)
        if first is None:
            return None
        cause = replace(
            first.cause, cause=_SILENT, remedy=_SILENT_REMEDY, settings=_SILENT_SETTINGS, wrapper=False
        )
        return replace(first, rank=_UNSAID, cause=cause)

    def _of_chain(self, chain: Sequence[LogEvent], *, failed: bool) -> Iterator[_Candidate]:
        """One candidate for a chain of exceptions, unless the table knows one of them."""
        known = [
            self.known.get(line) for event in chain for line in (event.line, *(at for at, _ in event.more))
        ]
        if any(each is not None and not each.wrapper for each in known):
            return
        start = min(event.line for event in chain)
        if len(chain) > 1:
            chain = [event for event in chain if not event.heading] or chain
        ranked = [
            (self._rank(event, explanation := explain_event(event)), event, explanation) for event in chain
        ]
        shown = [each for each in ranked if each[0] < _WRAPPER] or ranked[:1]
        while (
            len(shown) > 1
            and shown[0][1].probing
            and shown[0][1].exception in _PROBES
            and shown[1][2].explained
        ):
            shown = shown[1:]
        rank, event, explanation = shown[0]
        if event.kind == "sentence" and (
            explanation.harmless or not (failed or self._is_failure(event, explanation))
        ):
            return
        cause = self._cause(event, explanation, wrapper=rank == _WRAPPER)
        yield _Candidate(rank, self._run(event.line), event.line, cause, start)

    def _is_failure(self, event: LogEvent, explanation: Explanation) -> bool:
        """Whether a sentence at no level, in a log that does not end badly, is a failure."""
        if explanation.recognised or explanation.aws:
            return True
        return (explanation.kind is not None or len(self.texts) <= _SHORT) and SERVICE.search(
            event.text
        ) is not None

    def _rank(self, event: LogEvent, explanation: Explanation) -> int:
        found = self.known.get(event.line)
        if (found is not None and found.wrapper) or WRAPPERS.search(event.text):
            return _WRAPPER
        if event.kind == "sentence":
            return _SENTENCE if explanation.explained else _UNSAID
        if event.handled:
            return _SENTENCE
        if event.exception in _CONSEQUENCES or (explanation.kind is not None and explanation.kind.weak):
            return _UNEXPLAINED
        if event.kind == "traceback" and not event.heading:
            return _UNCAUGHT
        if not explanation.explained:
            return _UNEXPLAINED
        return _VAGUE if event.kind == "error" and not explanation.recognised else _LINE

    def _cause(self, event: LogEvent, explanation: Explanation, *, wrapper: bool) -> Cause:
        line = self._evidence(event)
        return Cause(
            id=explanation.kind.id if explanation.kind else "",
            cause="This line only says that something failed; the cause is in other lines."
            if wrapper
            else explanation.cause,
            evidence=self.texts[self.at[line]].strip(),
            line=line,
            remedy=explanation.remedy,
            settings=explanation.settings,
            confidence="low" if wrapper else explanation.confidence,
            source=explanation.source or event.place,
            wrapper=wrapper,
        )

    def _evidence(self, event: LogEvent) -> int:
        """pydantic's first line only counts the errors: the next ones name them."""
        if event.exception != "ValidationError":
            return event.line
        return next((number for number, text in event.more if _VALUE.match(text.strip())), event.line)

    def _run(self, number: int) -> int:
        return bisect_right(self.restarts, number)


def _known(found: Diagnosis, line: int, confidence: Confidence) -> Cause:
    return Cause(
        id=found.id,
        cause=found.cause,
        evidence=found.evidence,
        line=line,
        remedy=found.remedy,
        settings=found.settings,
        confidence="low" if found.wrapper else confidence,
        source=found.source,
        more=found.more,
        wrapper=found.wrapper,
    )


def _echo(evidence: str) -> str:
    """Equal for the same message of several ranks."""
    return re.sub(r"\d+", "0", evidence[-200:])
