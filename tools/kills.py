"""Kill `lmi` at random moments, and let AWS fail at random, by a seed: `make kills`, or

    python -m tools.kills --kills 200 --rounds 60 --seed 1 --lag tags=300,reads=5,roles=10 --kinds shared,candidate

Real `lmi` processes deploy to an emulator; each is struck by SIGKILL, SIGINT, SIGTERM or SIGSTOP (and later SIGCONT),
or meets faults. Afterwards the same commands must converge and leave nothing, and none may end with exit 3. The kinds
of deployments take turns. Those that run programs (compile, load jobs, images) have an emulator of their own; they need
podman and docker-registry. The seed decides everything but how fast this machine is. Exit 1 where something is wrong,
with each case's seed and output; `--only SEED --kinds KIND` runs one of them again, with the one that ran beside it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.container_image import FLAGS
from tests.support.emulator_process import Emulated, emulator
from tests.support.image_registry import image_registry
from tests.support.random_kills import KINDS, Outcome, faulty_round, killed_lifecycle, kind_of, remaining

SPEED = {False: "1000000", True: "600"}
"""By whether containers run: a load job lasts real seconds."""
FAULTS_FROM = 1_000_000
"""Seeds of fault rounds, so that `--only` tells them apart from those of kills."""


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.kills", description="Random kills and fault rounds."
    )
    parser.add_argument("--kills", type=int, default=200, help="signals that meet a running process (200)")
    parser.add_argument("--rounds", type=int, default=60, help="rounds of random faults (60)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lag", default="0", help="the emulator's --lag (0)")
    parser.add_argument("--jobs", type=int, default=2, help="lives at once (2)")
    parser.add_argument(
        "--kinds", type=_kinds, default="", metavar="KIND,...", help=f"{', '.join(KINDS)} (all)"
    )
    parser.add_argument("--only", type=int, metavar="SEED", help="this one life or round, alone")
    parser.add_argument("--json", action="store_true", help="the summary as one line of JSON")
    return parser.parse_args(argv)


def _kinds(text: str) -> list[str]:
    if not text:
        missing = [program for program in ("podman", "docker-registry") if shutil.which(program) is None]
        if missing:
            print(f"no lives of kind image: {' and '.join(missing)} not found", file=sys.stderr)
        return [kind for kind in KINDS if not (missing and kind == "image")]
    kinds = text.split(",")
    if unknown := set(kinds) - set(KINDS):
        raise argparse.ArgumentTypeError(
            f"no kind {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}"
        )
    return kinds


def kills(
    aws: Emulated, folder: Path, kinds: Sequence[str], *, count: int, seed: int, jobs: int
) -> Iterator[Outcome]:
    """Lives until so many signals have met a process."""
    met, following = 0, seed
    with ThreadPoolExecutor(jobs) as pool:
        while met < count:
            # Never many more than are asked for: a life has four at most.
            batch = max(1, min(jobs, (count - met + 2) // 3))
            seeds = range(following, following + batch)
            following += batch
            for outcome in pool.map(
                lambda one: killed_lifecycle(aws, folder, one, kind_of(one, kinds)), seeds
            ):
                met += outcome.crashed
                yield outcome


def rounds(aws: Emulated, folder: Path, kinds: Sequence[str], *, count: int, seed: int) -> Iterator[Outcome]:
    for number in range(FAULTS_FROM + seed, FAULTS_FROM + seed + count):
        yield faulty_round(aws, folder, number, kind_of(number, kinds))


@contextmanager
def account(folder: Path, *flags: str, containers: bool, images: bool) -> Iterator[Emulated]:
    with ExitStack() as stack:
        variables: dict[str, str] = {}
        if images:
            flags += ("--registry", stack.enter_context(image_registry(folder)))
            variables = {"LMI_CONTAINER_ENGINE": "podman", "LMI_CONTAINER_FLAGS": FLAGS}
        yield stack.enter_context(emulator(folder, *flags, containers=containers, variables=variables))


def lived(given: argparse.Namespace, folder: Path) -> Iterator[tuple[str, Outcome]]:
    """Faults strike every client of an emulator: they have one of their own."""
    for sort, containers in (("kills", False), ("kills", True), ("rounds", False)):
        kinds = [kind for kind in given.kinds if KINDS[kind].containers == containers]
        count = given.kills if sort == "kills" else given.rounds
        # Of all signals, a part for each kind.
        count = -(-count * len(kinds) // len(given.kinds)) if sort == "kills" else count
        if given.only is not None:
            count = count if (given.only >= FAULTS_FROM) == (sort == "rounds") else 0
        if not count or not kinds:
            continue
        place = folder / f"{sort}-{containers}"
        place.mkdir()
        flags = ("--speed", SPEED[containers], "--lag", given.lag)
        with account(place, *flags, containers=containers, images="image" in kinds) as aws:
            if sort == "rounds":
                first, number = (given.seed, count) if given.only is None else (given.only - FAULTS_FROM, 1)
                found = rounds(aws, place, kinds, count=number, seed=first)
            elif given.only is not None:
                found = kills(aws, place, kinds, count=1, seed=given.only - (given.only + 1) % 2, jobs=2)
            else:
                found = kills(aws, place, kinds, count=count, seed=given.seed, jobs=given.jobs)
            yield from ((sort, outcome) for outcome in found)
            if left := remaining(aws):
                yield sort, Outcome(given.seed, wrong=[f"at the end of all {sort} the account has {left}"])


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
