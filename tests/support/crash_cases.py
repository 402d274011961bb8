"""The cases of the crash matrix, from a table of what each scenario does undisturbed: to collect them runs nothing.

`python -m tests.support.crash_cases` writes the table again. Every run without a crash is compared with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from heapq import heapify, heappop, heappush
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.support.crash_injection import BETWEEN, Crash, CrashInjector, CrashKind, Moment
from tests.support.crash_scenarios import SCENARIOS, Snapshot, converged, crash_app, prepared, steps

TABLE = Path(__file__).parents[1] / "functional" / "sagemaker" / "crash_cases.json"
MOMENTS: tuple[Moment, ...] = ("before", "after")
SIGNALS: tuple[CrashKind, ...] = ("SIGKILL", "SIGINT")


@dataclass(frozen=True)
class Trace:
    """What a command does undisturbed. `failed`: the actions, by their number, that do not complete; `writes`: the
    action in progress, and how many writes there are until the next action.
    """

    actions: list[str]
    failed: list[int]
    writes: list[list[str | int]]

    @staticmethod
    def of(injector: CrashInjector) -> Trace:
        return Trace(
            actions=injector.actions,
            failed=[number for number, _ in enumerate(injector.actions) if number not in injector.done],
            writes=[[action, len([*writes])] for action, writes in groupby(a for a, _ in injector.writes)],
        )

    def action_of_each_write(self) -> list[str]:
        return [str(action) for action, count in self.writes for _ in range(int(count))]


@dataclass(frozen=True)
class Case:
    """`place`: the action, or where between the actions."""

    scenario: str
    crash: Crash
    place: str
    id: str


class FaultFreeRun:
    """The state before the command, what the command does, and the state after it and one more `up`."""

    def __init__(self, name: str, *, lagging: bool) -> None:
        scenario = SCENARIOS[name]
        with crash_app() as app:
            prepared(app, scenario, lagging=lagging)
            self.before: Snapshot = app.snapshot()
            self.injector: CrashInjector = steps(app, scenario)
            self.remaining: dict[str, Any] = converged(app)


@cache
def fault_free_run(name: str, *, lagging: bool = False) -> FaultFreeRun:
    """AssertionError if the table, and so the cases, are those of other scenarios."""
    run = FaultFreeRun(name, lagging=lagging)
    found, expected = Trace.of(run.injector), traces(lagging=lagging).get(name)
    assert found == expected, (
        f"{name}: not what {TABLE.name} says; `python -m tests.support.crash_cases` writes it again"
    )
    return run


@cache
def traces(*, lagging: bool) -> dict[str, Trace]:
    """By scenario. With `lagging`, the table has only those that differ."""
    table = json.loads(TABLE.read_text())
    found = table["plain"] | (table["lagging"] if lagging else {})
    return {name: Trace(**trace) for name, trace in found.items()}


def cases() -> Iterator[Case]:
    """Each action: before it, and after it if it completes. Each write: its reply is lost."""
    for name, trace in traces(lagging=False).items():
        for number, action in enumerate(trace.actions):
            for moment in MOMENTS[: 1 if number in trace.failed else 2]:
                for signal in SIGNALS:
                    id = f"{name}: {signal} {moment} {action} ({number})"
                    yield Case(name, Crash(moment, number, signal), action, id)
        writes = trace.action_of_each_write()
        between = [number for number, action in enumerate(writes) if action == BETWEEN]
        for number, action in enumerate(writes):
            is_between = action == BETWEEN
            endings: tuple[CrashKind, ...] = SIGNALS if is_between else (*SIGNALS, "broken connection")
            where = "the lock or the record" if is_between else action
            position = {between[0]: "first", between[-1]: "last"}.get(number, "later")
            for ending in endings:
                yield Case(
                    name,
                    Crash("reply lost", number, ending),
                    f"{BETWEEN}, {position}" if is_between else action,
                    f"{name}: {ending} at the lost reply to {where} ({number})",
                )


def lagging_cases() -> Iterator[Case]:
    """Killed after each action, and at each lost reply to an action."""
    for name, trace in traces(lagging=True).items():
        for number, action in enumerate(trace.actions):
            if number not in trace.failed:
                id = f"{name}: after {action} ({number})"
                yield Case(name, Crash("after", number, "SIGKILL"), action, id)
        for number, action in enumerate(trace.action_of_each_write()):
            if action != BETWEEN:
                id = f"{name}: lost reply to {action} ({number})"
                yield Case(name, Crash("reply lost", number, "SIGKILL"), action, id)


def triples_and_scenarios(case: Case) -> set[Hashable]:
    """What the selection of `cases` has at least once: every moment and ending of each action, and each moment and
    each ending in every scenario. Between the actions: at the first, at a later and at the last write.
    """
    moment, ending = case.crash.moment, case.crash.ending
    return {(case.place, moment, ending), (case.scenario, moment), (case.scenario, ending)}


def actions_and_moments(case: Case) -> set[Hashable]:
    """What the selection of `lagging_cases` has at least once."""
    return {(case.place, case.crash.moment)}


def with_selection(every: Iterable[Case], parts: Callable[[Case], set[Hashable]]) -> list[Any]:
    """All of the cases as parameters of a test, those that are not `selected` as `long`."""
    cases = list(every)
    chosen = set(selected(cases, parts))
    return [
        pytest.param(case, id=case.id, marks=() if case in chosen else pytest.mark.long) for case in cases
    ]


def selected(cases: list[Case], parts: Callable[[Case], set[Hashable]]) -> list[Case]:
    """A few of the cases that together have every part: always the first of those that add most."""
    queue = [(-len(parts(case)), number) for number, case in enumerate(cases)]
    heapify(queue)
    chosen: list[Case] = []
    covered: set[Hashable] = set()
    while queue:
        promised, number = heappop(queue)
        new = parts(cases[number]) - covered
        if len(new) == -promised:
            chosen.append(cases[number])
            covered |= new
        elif new:
            heappush(queue, (-len(new), number))
    return chosen


def write_table() -> None:
    def trace(name: str, *, lagging: bool) -> dict[str, Any]:
        return asdict(Trace.of(FaultFreeRun(name, lagging=lagging).injector))

    plain = {name: trace(name, lagging=False) for name in SCENARIOS}
    lagging = {name: trace(name, lagging=True) for name in SCENARIOS}
    differ = {name: found for name, found in lagging.items() if found != plain[name]}
    TABLE.write_text(f'{{\n"plain": {_lines(plain)},\n"lagging": {_lines(differ)}\n}}\n')


def _lines(found: dict[str, Any]) -> str:
    lines = (f"{json.dumps(name)}: {json.dumps(trace)}" for name, trace in found.items())
    return "{\n" + ",\n".join(lines) + "\n}"


if __name__ == "__main__":
    write_table()
