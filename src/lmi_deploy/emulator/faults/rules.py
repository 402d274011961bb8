"""Faults on demand: which request, which attempt, which fault. The page for users is docs/reference/fault-rules.md.

This module decides and is independent of the server: `faults/middleware.py` puts it before an aiohttp application,
and a proxy may do the same with `FaultRules.apply` and `inject`.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from lmi_deploy.errors import UsageRefused


@dataclass(frozen=True, slots=True)
class Call:
    """The parts of a request that a rule may match."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """This response instead of the real one; nothing is carried out."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""


@dataclass(frozen=True, slots=True)
class ChangedResponse:
    """The real response with another status (0: unchanged), with headers set, and others removed."""

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    remove: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hang:
    """No response for so long, then the connection is closed; nothing is carried out."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Drop:
    """The connection is closed (`reset`: by a TCP reset) without a response; nothing is carried out."""

    reset: bool = False


@dataclass(frozen=True, slots=True)
class Lose:
    """The request is carried out, and its response never arrives."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """The request is carried out twice, as by a network that sends again; the second response is returned."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The body stops after so many bytes, whatever length was announced."""

    after: int
    reset: bool = False


@dataclass(frozen=True, slots=True)
class Stall:
    """The body pauses after so many bytes, then continues."""

    after: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Flip:
    """One bit of the body's byte at this place is wrong."""

    at: int


@dataclass(frozen=True, slots=True)
class Pad:
    """The body has so many extra bytes, and the length includes them."""

    count: int


@dataclass(frozen=True, slots=True)
class IgnoreRange:
    """The whole body for a range request (200 in place of 206)."""


@dataclass(frozen=True, slots=True)
class ShiftRange:
    """Another range than the requested one: moved by so many bytes, and labelled with the moved range."""

    by: int


Action = (
    Answer
    | ChangedResponse
    | Hang
    | Drop
    | Lose
    | Repeat
    | Cut
    | Stall
    | Flip
    | Pad
    | IgnoreRange
    | ShiftRange
)


class BadRule(UsageRefused):
    """An invalid fault rule; with its position in the rules and the error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRule:
    """Of the requests that match, the `nth` and every `every`th after it, `times` in all (None: no end)."""

    do: Action
    name: str = ""
    method: str = ""
    path: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    nth: int = 1
    every: int = 1
    times: int | None = 1
    delay: float = 0.0

    def matches(self, call: Call) -> bool:
        """`method` is exact; `path` and the headers' values are regular expressions found anywhere."""
        if self.method and self.method.upper() != call.method.upper():
            return False
        if not re.search(self.path, call.path):
            return False
        observed = {name.lower(): value for name, value in call.headers.items()}
        return all(
            re.search(expected, observed[name.lower()]) if name.lower() in observed else False
            for name, expected in self.headers.items()
        )

    def is_due(self, count: int, fired: int) -> bool:
        late = count - self.nth
        return late >= 0 and late % self.every == 0 and (self.times is None or fired < self.times)


@dataclass(slots=True)
class Tally:
    """A rule with its counts so far."""

    rule: FaultRule
    matched: int = 0
    fired: int = 0


class FaultRules:
    """The rules of one server. Each counts every request that it matches; the first that is due strikes."""

    def __init__(
        self, rules: Iterable[FaultRule] = (), *, why_never: Callable[[FaultRule], str] = lambda rule: ""
    ) -> None:
        """`why_never` returns why a rule can never match on this server; BadRule for such a rule."""
        self._lock = threading.Lock()
        self._why_never = why_never
        self._tallies: list[Tally] = []
        self.add(*rules)

    def add(self, *rules: FaultRule) -> None:
        for number, rule in enumerate(rules, 1):
            if why := self._why_never(rule):
                raise BadRule(
                    f"rule {number}{f' ({rule.name})' if rule.name else ''} can never match: {why}",
                    hint="`lmi docs fault-rules` and `lmi docs emulator` list methods and paths",
                )
        with self._lock:
            self._tallies.extend(Tally(rule) for rule in rules)

    def clear(self) -> None:
        with self._lock:
            self._tallies.clear()

    def tallies(self) -> tuple[Tally, ...]:
        with self._lock:
            return tuple(Tally(t.rule, t.matched, t.fired) for t in self._tallies)

    def apply(self, call: Call) -> FaultRule | None:
        """The rule that this request runs into, counted as fired; None for almost all requests."""
        fault: Tally | None = None
        with self._lock:
            for tally in self._tallies:
                if not tally.rule.matches(call):
                    continue
                tally.matched += 1
                if fault is None and tally.rule.is_due(tally.matched, tally.fired):
                    tally.fired += 1
                    fault = tally
        return None if fault is None else fault.rule


@dataclass(frozen=True, slots=True)
class Send:
    content: bytes


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


@dataclass(frozen=True, slots=True)
class End:
    """Close the connection here, by a TCP reset if requested."""

    reset: bool


Step = Send | Pause | End


def inject(action: Action, chunks: Iterable[bytes]) -> Iterator[Step]:
    """The steps by which a body is sent under an action; those that touch no body leave it whole."""
    match action:
        case Cut(after=at, reset=reset):
            yield from (Send(part) for part in _until(chunks, at))
            yield End(reset)
        case Stall(after=at, seconds=seconds):
            yield from _changed(chunks, at, lambda old, i: (Send(old[:i]), Pause(seconds), Send(old[i:])))
        case Flip(at=at):
            yield from _changed(
                chunks, at, lambda old, i: (Send(old[:i] + bytes([old[i] ^ 1]) + old[i + 1 :]),)
            )
        case Pad(count=count):
            yield from (Send(chunk) for chunk in chunks)
            yield Send(bytes(count))
        case _:
            yield from (Send(chunk) for chunk in chunks)


def _until(chunks: Iterable[bytes], stop: int) -> Iterator[bytes]:
    for chunk in chunks:
        if stop <= 0:
            return
        yield chunk[:stop]
        stop -= len(chunk)


def _changed(
    chunks: Iterable[bytes], at: int, change: Callable[[bytes, int], Iterable[Step]]
) -> Iterator[Step]:
    """The body with the chunk that contains a position changed there; unchanged if the body is shorter."""
    for chunk in chunks:
        yield from change(chunk, at) if 0 <= at < len(chunk) else (Send(chunk),)
        at -= len(chunk)
