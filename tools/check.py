"""Everything that is checked, in order, each step timed: `python -m tools.check [--tier TIER] [STEP ...]`.

Three tiers: `test` is the README's `make test`; `landing` is what `.ci/run` runs besides it (tests marked `landing`,
other people's programs, real engines); `long` is the rest of `make test-all`. After a failure the commands are printed
that repeat the failed tests alone; at the end, the ten slowest tests.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn
from xml.etree import ElementTree

import psutil

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
RUN = "LMI_CHECK_RUN"
"""The variable that marks every process of a run."""
ENDS_WITHIN = 20.0
"""Seconds that a step has after Ctrl-C to end what it started."""
TIERS = {"test": "not landing and not long", "landing": "landing and not long", "long": "long"}
"""Pytest's expression for the tests of each tier."""


@dataclass(frozen=True)
class Step:
    """Commands one after another, or the tests of the tier in some folders, in so many processes."""

    name: str
    tiers: tuple[str, ...]
    commands: tuple[tuple[str, ...], ...] = ()
    folders: tuple[str, ...] = ()
    besides: tuple[str, ...] = ()
    """Folders in these, which other steps run."""
    processes: int = 2

    def run(self, tier: str, folder: Path) -> tuple[tuple[str, ...], ...]:
        if not self.folders:
            return self.commands
        tests = (*self.folders, *(f"--ignore={folder}" for folder in self.besides))
        # In the order of tests/conftest.py: by itself, xdist starts files of few tests last, however long these take.
        several = ("-n", str(self.processes), "--dist", "loadfile", "--no-loadscope-reorder")
        parallel = several if self.processes > 1 else ()
        report = ("-o", "junit_family=xunit1", f"--junitxml={self.report(folder)}")
        return (_program("pytest", "-q", *tests, "-m", TIERS[tier], *parallel, *report),)

    def report(self, folder: Path) -> Path:
        """What pytest writes about the tests, in JUnit's form."""
        return folder / f"{self.name}.xml"


def _program(*words: str) -> tuple[str, ...]:
    return (sys.executable, "-m", *words)


STAGES: tuple[tuple[Step, ...], ...] = (
    (Step("environments", ("test",), (_program("tools.environments"),)),),
    # mypy computes for a minute on one core: it runs beside the unit tests.
    (
        Step(
            "lint",
            ("test",),
            (
                (str(BIN / "ruff"), "format", "--check", "."),
                (str(BIN / "ruff"), "check", "."),
                (str(BIN / "mypy"),),
            ),
        ),
        Step("unit", ("test",), folders=("tests/unit", "tests/golden")),
    ),
    # Most of these wait a part of their time: for other processes, for the load of a bench, for a time limit.
    (
        Step(
            "programs",
            ("test", "landing", "long"),
            folders=("tests",),
            besides=("tests/unit", "tests/golden", "tests/clients", "tests/engines"),
            processes=4,
        ),
        # One after another: each has the memory and the threads of a machine to itself.
        Step("engines", ("landing", "long"), folders=("tests/engines",), processes=1),
    ),
    (Step("docs", ("landing",), (_program("tools.site"),)),),
    (Step("clients", ("landing",), folders=("tests/clients",), processes=1),),
    (Step("pythons", ("long",), (_program("tools.pythons", "--functional"),)),),
    (Step("fuzz", ("long",), (_program("tools.fuzz", "--cases", "100000"),)),),
    (Step("kills", ("long",), (_program("tools.kills", "--lag", "tags=300,reads=5,roles=10"),)),),
)


def main(arguments: Sequence[str], known: Sequence[Sequence[Step]] = STAGES) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.check", description=__doc__)
    parser.add_argument("steps", nargs="*", metavar="STEP", help=", ".join(_names()))
    parser.add_argument(
        "--tier", choices=[*TIERS], help="by default: test, or the first tier that has the step"
    )
    given = parser.parse_args(arguments)
    for name in given.steps:
        if name not in _names():
            parser.error(f"no step {name!r}; there are: {', '.join(_names())}")
    stages = [
        [(step, tier) for step in stage if (tier := _tier(step, given.tier, chosen=given.steps))]
        for stage in known
    ]
    # In the background of a script SIGINT is ignored, and so it would be by every process of a test about Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _interrupt)
    started = time.monotonic()
    run = uuid.uuid4().hex
    try:
        # A short path: the name of a socket has at most 107 bytes.
        with tempfile.TemporaryDirectory(prefix="lmi-", ignore_cleanup_errors=True) as folder:
            variables = {"PYTHONDONTWRITEBYTECODE": "", "LMI_REPORT_SKIPS": "1", RUN: run, "TMPDIR": folder}
            environment = {**os.environ, **variables}
            passed = all(_stage_passes(stage, Path(folder), environment) for stage in stages if stage)
            _print_slowest(Path(folder))
    except KeyboardInterrupt:
        print("\n== interrupted", flush=True)
        return 130
    finally:
        _end_processes(run)
    print(f"== {'passed' if passed else 'failed'} in {time.monotonic() - started:.0f} s", flush=True)
    return 0 if passed else 1


def _names() -> list[str]:
    return [step.name for stage in STAGES for step in stage]


def _tier(step: Step, tier: str | None, *, chosen: Sequence[str]) -> str | None:
    """The tier in which to run it; None: not at all."""
    if chosen and step.name not in chosen:
        return None
    if tier is None:
        return step.tiers[0] if chosen or "test" in step.tiers else None
    return tier if tier in step.tiers else None


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _stage_passes(stage: Sequence[tuple[Step, str]], folder: Path, environment: dict[str, str]) -> bool:
    """The steps of a stage run at the same time. The last one prints as it runs, the others once they have ended."""
    commands = [(step, command) for step, tier in stage for command in step.run(tier, folder)]
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        running = []
        for number, (step, command) in enumerate(commands, 1):
            print(f"== {_words(step, command)} ...", flush=True)
            output = None if number == len(commands) else stack.enter_context(tempfile.TemporaryFile("w+"))
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=output)
            running.append((step, process, output))
        with ThreadPoolExecutor(len(running)) as pool:
            ends = [pool.submit(_end, *one, started) for one in running]
            try:
                codes = [end.result() for end in ends]
            except KeyboardInterrupt:
                _interrupt_all([process for _, process, _ in running])
                raise
    for step, _ in stage:
        _print_failed(step.report(folder))
    return not any(codes)


def _end(step: Step, process: subprocess.Popen[bytes], output: IO[str] | None, started: float) -> int:
    """Waits for it."""
    code = process.wait()
    if output is not None:
        output.seek(0)
        print(output.read(), end="", flush=True)
    verdict = f"failed ({code})" if code else "passed"
    print(f"== {_words(step, process.args)} {verdict} in {time.monotonic() - started:.0f} s", flush=True)
    return code


def _words(step: Step, command: Any) -> str:
    """The step, and the program with its first words."""
    words = [Path(word).name for word in command if word != "-m"]
    return f"{step.name}: {' '.join(words[words[0].startswith('python') :][:2])}"


def _interrupt_all(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ctrl-C reaches them too, but `kill` only us."""
    for process in processes:
        process.send_signal(signal.SIGINT)
    deadline = time.monotonic() + ENDS_WITHIN
    for process in processes:
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            process.kill()  # else the thread that waits for it would wait on


def _end_processes(run: str) -> None:
    """Kills what this run started and left behind, and names it."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid != os.getpid() and process.environ().get(RUN) == run:
                print(f"== left behind, ended: {' '.join(process.cmdline())[:200]}", flush=True)
                process.kill()


def _cases(report: Path) -> Iterator[tuple[float, str, bool]]:
    """Of each test its seconds, its name for pytest, and whether it failed."""
    if report.exists():
        for case in ElementTree.parse(report).iter("testcase"):
            test = f"{case.get('file')}::{case.get('name')}"
            bad = case.find("failure") is not None or case.find("error") is not None
            yield float(case.get("time") or 0), test, bad


def _print_failed(report: Path) -> None:
    failed = [test for _, test, bad in _cases(report) if bad]
    if failed:
        print("== to repeat what failed alone:")
    for test in failed[:20]:
        print(f"{Path(sys.executable).relative_to(ROOT)} -m pytest {shlex.quote(test)}")


def _print_slowest(folder: Path) -> None:
    slowest = sorted((case for report in folder.glob("*.xml") for case in _cases(report)), reverse=True)[:10]
    if slowest:
        print("== the slowest tests")
    for seconds, test, _ in slowest:
        print(f"{seconds:6.1f} s  {test}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
