"""Kill `lmi` at random moments, and let AWS fail at random, by a seed: `make kills`, or

    python -m tools.kills --kills 200 --rounds 60 --seed 1 --lag tags=300,reads=5,roles=10

Real `lmi` processes deploy to an emulator; each is struck by SIGKILL, SIGINT, SIGTERM or SIGSTOP (and later SIGCONT),
or meets faults. Afterwards the same commands must converge and leave nothing, and none may end with exit 3. The seed
decides everything but how fast this machine is. Exit 1 where something is wrong, with each case's seed and output;
`--only SEED` runs one of them again.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.emulator_process import Emulated, emulator
from tests.support.random_kills import Outcome, faulty_round, killed_lifecycle, remaining

FULL_SPEED = ("--speed", "1000000")
FAULTS_FROM = 1_000_000
"""Seeds of fault rounds, so that `--only` tells them apart from those of kills."""
Lived = Callable[[Emulated, Path, int], Outcome]


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.kills", description="Random kills and fault rounds."
    )
    parser.add_argument("--kills", type=int, default=200, help="signals that meet a running process (200)")
    parser.add_argument("--rounds", type=int, default=60, help="rounds of random faults (60)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lag", default="0", help="the emulator's --lag (0)")
    parser.add_argument("--jobs", type=int, default=2, help="lives at once (2)")
    parser.add_argument("--only", type=int, metavar="SEED", help="this one life or round, alone")
    parser.add_argument("--json", action="store_true", help="the summary as one line of JSON")
    return parser.parse_args(argv)


def kills(aws: Emulated, folder: Path, *, count: int, seed: int, jobs: int) -> Iterator[Outcome]:
    """Lives until so many signals have met a process."""
    fault, following = 0, seed
    with ThreadPoolExecutor(jobs) as pool:
        while fault < count:
            # Never many more than are asked for: a life has three at most.
            batch = max(1, min(jobs, (count - fault + 2) // 3))
            seeds = range(following, following + batch)
            following += batch
            for outcome in pool.map(lambda one: killed_lifecycle(aws, folder, one), seeds):
                fault += outcome.crashed
                yield outcome


def rounds(aws: Emulated, folder: Path, *, count: int, seed: int) -> Iterator[Outcome]:
    for number in range(count):
        yield faulty_round(aws, folder, FAULTS_FROM + seed + number)


def lived(given: argparse.Namespace, folder: Path) -> Iterator[tuple[str, Outcome]]:
    """Faults strike every client of an emulator: they have one of their own."""
    flags = (*FULL_SPEED, "--lag", given.lag)
    for kind, count in (("kills", given.kills), ("rounds", given.rounds)):
        place = folder / kind
        place.mkdir()
        required = given.only is None or (given.only >= FAULTS_FROM) == (kind == "rounds")
        if not count or not required:
            continue
        with emulator(place, *flags) as aws:
            if given.only is not None:
                one: Lived = faulty_round if kind == "rounds" else killed_lifecycle
                found: Iterator[Outcome] = iter([one(aws, place, given.only)])
            elif kind == "kills":
                found = kills(aws, place, count=count, seed=given.seed, jobs=given.jobs)
            else:
                found = rounds(aws, place, count=count, seed=given.seed)
            yield from ((kind, outcome) for outcome in found)
            if left := remaining(aws):
                yield kind, Outcome(given.seed, wrong=[f"at the end of all {kind} the account has {left}"])


def main(argv: list[str] | None = None) -> int:
    given = arguments(argv)
    started, fault, runs, hits = time.monotonic(), Counter[str](), Counter[str](), Counter[str]()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="lmi-kills-") as folder:
        for kind, outcome in lived(given, Path(folder)):
            fault[kind] += outcome.crashed
            runs[kind] += 1
            hits.update(outcome.hits)
            wrong += outcome.wrong
            for text in outcome.wrong:
                print(text, file=sys.stderr, flush=True)
            print(
                f"{kind}: {runs[kind]} lives, {fault[kind]} struck, seed {outcome.seed}: "
                f"{'WRONG' if outcome.wrong else 'good'}, "
                f"{outcome.seconds:.0f} s",
                file=sys.stderr,
                flush=True,
            )
    summary = {
        "kills": fault["kills"],
        "lives": runs["kills"],
        "signals": dict(hits),
        "fault_rounds": runs["rounds"],
        "wrong": len(wrong),
        "seconds": round(time.monotonic() - started),
        "seed": given.seed,
        "lag": given.lag,
    }
    print(
        json.dumps(summary) if given.json else "\n".join(f"{key}: {value}" for key, value in summary.items())
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
