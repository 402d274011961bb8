"""One deployment's life, through the installed `lmi --json`, each line noted with the time at which it came."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT, environment

Event = Mapping[str, Any]
PROMPT = "Tell me about the sea."
TOKENS = 64


@dataclass(frozen=True, slots=True)
class CycleResult:
    """What one command printed, and how long it lived."""

    events: Sequence[tuple[float, Event]]
    seconds: float

    def named(self, event: str) -> list[tuple[float, Event]]:
        return [(at, response) for at, response in self.events if response["event"] == event]

    @property
    def result(self) -> Event:
        return self.events[-1][1]


@dataclass(frozen=True, slots=True)
class Lmi:
    """The program under measurement; its state is the benchmark's own, so that nobody's deployment is touched."""

    program: Path
    more: Mapping[str, str]

    def __call__(self, *arguments: str) -> CycleResult:
        started = time.perf_counter()
        command = [str(self.program), *arguments, "--json"]
        with subprocess.Popen(
            command, cwd=ROOT, env=environment(self.more), stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            events = [(time.perf_counter() - started, json.loads(line)) for line in process.stdout]
        response = CycleResult(events, time.perf_counter() - started)
        if process.returncode:
            raise SystemExit(f"error: lmi {' '.join(arguments)}: {response.events[-1:]}")
        return response


def phases(up: CycleResult) -> dict[str, float]:
    """Seconds of `up`, in order; they add up to the whole."""
    finished = {
        response["key"].partition(":")[0]: response["seconds"] for _, response in up.named("finished")
    }
    response = up.named("answered")[0][1]["seconds"]
    planned = up.named("plan")[0][0]
    waited = finished.get("AwaitReady", 0.0)
    starting = min(_starting(up), waited)
    parts = {
        "start, look and plan": planned,
        "write the artifact": finished.get("PutArtifact", 0.0),
        "start the server": finished.get("StartServer", 0.0) + starting,
        "load the model": waited - starting,
        "one real response": response,
    }
    return {**parts, "between and after": up.seconds - sum(parts.values())}


def own_share(up: CycleResult) -> float:
    """Everything but the model's load and the model's answer."""
    parts = phases(up)
    return up.seconds - parts["load the model"] - parts["one real response"]


def _starting(up: CycleResult) -> float:
    """Of the wait, what passed before the server said that it is loading the model: that is our part of it."""
    loading = (response["done"] for _, response in up.named("progress") if response.get("note") == "loading")
    return float(next(loading, 0.0))
