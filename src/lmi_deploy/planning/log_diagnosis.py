"""The cause of a failure in a log: the first failure that is a cause, not a consequence."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, chain
from types import MappingProxyType

from lmi_deploy.catalog.known_failures import Failure, KnownFailures, Level, Pattern, known_failures

_RANK: dict[Level, int] = {"cause": 0, "weak": 1, "wrapper": 2}
_RESTARTS = (
    Pattern("retry: ", "retry: [1-9]"),
    Pattern("estart", "[Rr]estart(ing)? python (worker|process)"),
)
_TRACEBACK = 150
"""Lines above an error that may contain its traceback."""
_NOTHING: Mapping[str, str] = MappingProxyType({})
_ENGINES = {"lmi-dist": "vllm", "tensorrt-llm": "trtllm", "neuronx": "neuron"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosisContext:
    """The context of the log. It decides between entries that match the same line; `facts` are checked, too."""

    where: str = ""
    """`container_log`, `failure_reason`, `client_error`, `invoke_error`, `hub` or `s3`."""
    engine: str = ""
    version: str = ""
    facts: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    """Such as EndpointStatus: Failed, EnableNetworkIsolation: true."""
    known: KnownFailures | None = None
    """None: the packaged table."""

    @property
    def table(self) -> KnownFailures:
        return known_failures() if self.known is None else self.known


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """`evidence` is the matching line (or fact); a `wrapper` only says that the cause is in another log."""

    id: str
    cause: str
    remedy: str
    evidence: str
    line: int
    """Counted from 1; 0 if the evidence is a fact, not a log line."""
    wrapper: bool
    settings: tuple[str, ...]
    more: str
    """The command that shows the failure with its marks."""
    source: str
    """The thread or the source file where it was seen."""
    weak: bool = False


@dataclass(frozen=True, slots=True)
class _Match:
    line: int
    failure: Failure
    match: re.Match[str]
    run: int
    """Number of restarts before it."""


UNKNOWN = DiagnosisContext()


def diagnose(lines: Sequence[str], around: DiagnosisContext = UNKNOWN) -> Diagnosis | None:
    """The first failure that explains itself, before the worker's first restart; None if none is known.

    Failures after a restart may be consequences. A wrapper is returned only if there is nothing else.
    """
    hits = list(_hits(lines, around))
    runs = [[hit for hit in hits if hit.run == run] for run in sorted({hit.run for hit in hits})]
    chosen = [_best(run, around) for run in runs]
    hit = next((hit for hit in chosen if hit.failure.level != "wrapper"), None)
    if hit is None:
        by_fact = diagnose_by_facts(around)
        if by_fact is not None:
            return by_fact
        hit = chosen[0] if chosen else None
    if hit is None:
        return None
    return _of_hit(hit, lines)


def known_causes(lines: Sequence[str], around: DiagnosisContext = UNKNOWN) -> list[Diagnosis]:
    """What the table knows of each line, at most one for a line, in the order of the log."""
    hits = list(_hits(lines, around))
    replaced = {(name, hit.run) for hit in hits for name in hit.failure.over}
    by_line: dict[int, list[_Match]] = {}
    for hit in hits:
        if (hit.failure.id, hit.run) not in replaced:
            by_line.setdefault(hit.line, []).append(hit)
    return [_of_hit(_best(by_line[line], around), lines) for line in sorted(by_line)]


def noise_lines(lines: Sequence[str], around: DiagnosisContext) -> set[int]:
    """Indices of harmless lines."""
    return _matching(around.table.noise, lines)


def restart_lines(lines: Sequence[str]) -> list[int]:
    """Indices of the lines where a worker starts again."""
    return sorted(_matching(_RESTARTS, lines))


def _matching(patterns: Sequence[Pattern], lines: Sequence[str]) -> set[int]:
    plain, text, starts = _text_of(lines)
    return {at for each in patterns for at, _ in _found(each, text, plain, starts)}


def _of_hit(hit: _Match, lines: Sequence[str]) -> Diagnosis:
    groups = {key: value for key, value in hit.match.groupdict().items() if value is not None}
    return _diagnosis(hit.failure, groups, evidence=lines[hit.line].strip(), line=hit.line + 1)


def _text_of(lines: Sequence[str]) -> tuple[list[str], str, list[int]]:
    """The lines without line breaks, all of them as one text, and where each begins in it."""
    plain = [line.replace("\n", " ") for line in lines]
    return plain, "\n".join(plain), [0, *accumulate(len(line) + 1 for line in plain)][:-1]


def _hits(lines: Sequence[str], around: DiagnosisContext) -> Iterator[_Match]:
    plain, text, starts = _text_of(lines)
    ignored, restarts = noise_lines(lines, around), restart_lines(lines)
    for failure in around.table.failures:
        possible = [each for each in failure.patterns if each.literal in text]
        if not possible or not _holds(failure.given, around.facts):
            continue
        if not _compiled(failure.frames).search(text):
            continue
        runs: set[int] = set()
        for at, match in chain.from_iterable(_found(each, text, plain, starts) for each in possible):
            run = bisect_right(restarts, at)
            if run not in runs and at not in ignored and _applies(failure, plain, at):
                runs.add(run)
                yield _Match(at, failure, match, run)


def _found(
    pattern: Pattern, text: str, lines: Sequence[str], starts: Sequence[int]
) -> Iterator[tuple[int, re.Match[str]]]:
    """The lines that match; a plain search for the literal finds the few that are worth a try."""
    at = text.find(pattern.literal)
    while at >= 0:
        line = bisect_right(starts, at) - 1
        match = _compiled(pattern.text).search(lines[line])
        if match:
            yield line, match
        at = text.find(pattern.literal, starts[line] + len(lines[line]))


@cache
def _compiled(text: str) -> re.Pattern[str]:
    return re.compile(text)


def _applies(failure: Failure, lines: Sequence[str], at: int) -> bool:
    if failure.unless and _compiled(failure.unless).search(lines[at]):
        return False
    if not failure.frames:
        return True
    above = "\n".join(lines[max(0, at - _TRACEBACK) : at])
    return _compiled(rf"\b(?:{failure.frames})\b").search(above) is not None


def _holds(given: Mapping[str, str], facts: Mapping[str, str]) -> bool:
    return all(str(facts.get(key, "")).lower() == value.lower() for key, value in given.items())


def _best(hits: Sequence[_Match], around: DiagnosisContext) -> _Match:
    best = min(hits, key=lambda hit: _order(hit, around))
    while better := next((hit for hit in hits if best.failure.id in hit.failure.over), None):
        best = better
    return best


def _order(hit: _Match, around: DiagnosisContext) -> tuple[object, ...]:
    """Causes first, then the earliest line; on one line the entry that fits the context and is the most specific."""
    failure = hit.failure
    unsupported = [
        bool(failure.engine and around.engine)
        and failure.engine != _ENGINES.get(around.engine, around.engine),
        bool(around.where) and failure.where != around.where,
        not _of_version(failure.versions, around.version),
    ]
    length = hit.match.end() - hit.match.start()
    return _RANK[failure.level], hit.line, -len(failure.given), not failure.frames, unsupported, -length


def _of_version(versions: str, version: str) -> bool:
    """Whether `version` may be one of `versions` (">=0.8", "0.7-0.10"); text that is not a version is ignored."""
    numbers = re.search(r"(>=|<=)?\s*(\d+(?:\.\d+)+)(?:-(\d+(?:\.\d+)+))?", versions)
    if not version or numbers is None:
        return True
    sign, low, high = numbers.groups()
    own = _key(version)
    if high:
        return _key(low) <= own <= _key(high)
    return own >= _key(low) if sign == ">=" else own <= _key(low) if sign == "<=" else True


def _key(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


def diagnose_by_facts(around: DiagnosisContext) -> Diagnosis | None:
    """An entry without a log line whose facts match."""
    for failure in around.table.failures:
        if failure.given and _holds(failure.given, around.facts):
            named = ", ".join(f"{key}: {value}" for key, value in failure.given.items())
            return _diagnosis(failure, {}, evidence=named, line=0)
    return None


def _diagnosis(failure: Failure, groups: Mapping[str, str], *, evidence: str, line: int) -> Diagnosis:
    return Diagnosis(
        id=failure.id,
        cause=_filled(failure.cause, groups),
        remedy=_filled(failure.remedy, groups),
        evidence=evidence,
        line=line,
        wrapper=failure.level == "wrapper",
        settings=failure.settings,
        more=f"lmi explain {failure.id}",
        source=failure.source,
        weak=failure.level == "weak",
    )


def _filled(text: str, groups: Mapping[str, str]) -> str:
    for key, value in groups.items():
        text = text.replace(f"{{{key}}}", value)
    return text
