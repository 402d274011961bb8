"""`lmi up` of the quickstart with everything cached, a second `up`, a question, `lmi down`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

from benchmarks import table
from benchmarks.cycle import PROMPT, TOKENS, CycleResult, Lmi, own_share, phases
from benchmarks.installed import installed
from benchmarks.measure import say
from benchmarks.result import Figure, Result
from tools.quickstart import PUBLIC_HUB, RECIPE, reachable, sample_hub

RUNS = 5
AIM = 1.5
_BYTECODE = (
    "the serving environment's bytecode is there; the first `up` of a new one writes it, and takes longer"
)


def run() -> Result:
    local = installed("local")
    with hub() as address, tempfile.TemporaryDirectory() as state:
        lmi = Lmi(local.lmi, {"HF_ENDPOINT": address, "LMI_STATE_HOME": state})
        try:
            say("  once to fill every cache, ...")
            _cycle(lmi)
            cycles = [_cycle_figures(_cycle(lmi), number) for number in range(1, RUNS + 1)]
        finally:
            lmi("down", "quickstart", "--yes")
    return Result(
        what="the quickstart's real model on this machine; environment, engine and weights cached, deployment absent",
        figures=_figures(cycles),
        versions=local.versions(),
        details={
            "phases_of_up": _phases(cycles),
            "own_share": "start to end; of the wait, what passed before the server began to load is in it",
            "load": _BYTECODE,
            "question": f"{PROMPT} ({TOKENS} tokens)",
        },
    )


def _cycle(lmi: Lmi) -> dict[str, CycleResult]:
    """Every command once, in the order of a deployment's life."""
    requests = ["-p", f"max_tokens={TOKENS}", "-p", "temperature=0"]
    response = {"up": lmi("up", RECIPE, "--yes"), "again": lmi("up", RECIPE, "--yes")}
    response["ask"] = lmi("invoke", "quickstart", PROMPT, *requests)
    response["down"] = lmi("down", "quickstart", "--yes")
    return response


def _cycle_figures(cycle: dict[str, CycleResult], number: int) -> dict[str, CycleResult]:
    up = cycle["up"]
    say(f"  {number} of {RUNS}: up {up.seconds:.2f} s, our own share of it {own_share(up):.2f} s")
    return cycle


def _figures(cycles: list[dict[str, CycleResult]]) -> list[Figure]:
    ups, responses = [c["up"] for c in cycles], [c["ask"].result for c in cycles]
    return [
        Figure.typical(
            "`lmi up` of the quickstart, cached: time of `lmi` itself",
            [own_share(up) for up in ups],
            at_most=AIM,
            note="without the model's load and response",
        ),
        Figure.typical(
            "`lmi up` of the quickstart, cached: all of it",
            [up.seconds for up in ups],
            note=_split([phases(up) for up in ups]),
        ),
        Figure.typical(
            "`lmi up` again: nothing to do, one real response", [c["again"].seconds for c in cycles]
        ),
        Figure.typical("`lmi down`", [c["down"].seconds for c in cycles]),
        Figure.typical("`lmi invoke`: first token after", [a["first_token_seconds"] for a in responses]),
        Figure.typical(
            f"`lmi invoke`: speed over {TOKENS} tokens",
            [a["tokens_per_second"] for a in responses],
            "tokens/s",
        ),
    ]


def _split(rows: list[dict[str, float]]) -> str:
    """Median of each phase, in the order in which they come."""
    middles = {name: median(row[name] for row in rows) for name in rows[0]}
    return ", ".join(f"{name} {table.amount(seconds, 's')}" for name, seconds in middles.items())


def _phases(cycles: list[dict[str, CycleResult]]) -> list[dict[str, float]]:
    return [{name: round(s, 3) for name, s in phases(c["up"]).items()} for c in cycles]


@contextmanager
def hub() -> Iterator[str]:
    """The Hub that this environment names, where it answers; else a local one, as in the quickstart."""
    named = os.environ.get("HF_ENDPOINT") or PUBLIC_HUB
    if reachable(named):
        yield named
        return
    with sample_hub() as address:
        yield address
