"""Measuring whole processes, fairly: bytecode allowed, taken in turns, every sample kept."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_NOT_FOR_CHILDREN = ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONPROFILEIMPORTTIME")


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's, without what makes Python slower than it is for users."""
    kept = {key: value for key, value in os.environ.items() if key not in _NOT_FOR_CHILDREN}
    return {**kept, **(more or {})}


@contextmanager
def scratch_folder(build: Path = ROOT / ".build") -> Iterator[Path]:
    """A temporary folder on the disk of the checkout: /tmp may be memory, and smaller than the files."""
    build.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build) as folder:
        yield Path(folder)


def say(text: str) -> None:
    print(text, flush=True)


def checked(command: Sequence[str | Path], **more: str) -> str:
    """stdout of a command that has to work; what it said is told when it does not."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=ROOT,
        env=environment(more),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        raise SystemExit(f"error: {' '.join(map(str, command))}: exit code {done.returncode}\n{tail}")
    return done.stdout


def seconds(command: Sequence[str | Path]) -> float:
    """Wall-clock of one whole process, from fork to reaped."""
    started = time.perf_counter()
    checked(command)
    return time.perf_counter() - started


def in_turns(
    commands: Mapping[str, Sequence[str | Path]], *, runs: int, warm_up: int = 2
) -> dict[str, list[float]]:
    """A B C A B C ...: whatever else the machine does meanwhile falls on all of them alike."""
    samples: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(-warm_up, runs):
        for name, command in commands.items():
            duration = seconds(command)
            if turn >= 0:
                samples[name].append(duration)
    return samples


def ratios(these: Sequence[float], those: Sequence[float]) -> list[float]:
    """Turn by turn."""
    return [a / b for a, b in zip(these, those, strict=True)]
