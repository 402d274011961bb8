"""The first `lmi up` of an account on the emulator, with real containers, and the part of it that is lmi's own."""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median

from benchmarks.cycle import CycleResult, Lmi
from benchmarks.installed import installed
from benchmarks.measure import say
from benchmarks.result import Figure, Result
from tests.integration.sagemaker import test_update_under_load as echo
from tests.support.emulator_process import emulator
from tests.support.fakes import safetensors

RUNS = 5
AIM = 5.0
_CONTAINER = "wait for the container"
_RESPONSE = "one real response"


def run() -> Result:
    core = installed()
    ups = [_first_up(core.lmi, number) for number in range(1, RUNS + 1)]
    return Result(
        what="an echo handler in a container of the emulator, in an account without bucket, weights and deployment",
        figures=[
            Figure.typical(
                "First `lmi up` on the emulator: time of `lmi` itself",
                [_own_share(up) for up in ups],
                at_most=AIM,
                note="without the start of the container and its response",
            ),
            Figure.typical(
                "First `lmi up` on the emulator: all of it",
                [up.seconds for up in ups],
                note=_phases_text(ups),
            ),
        ],
        versions=core.versions(),
        details={"phases": [{name: round(value, 3) for name, value in _phases(up).items()} for up in ups]},
    )


def _first_up(program: Path, number: int) -> CycleResult:
    # SageMaker's own minutes pass 600 times faster: the container's start takes its real time.
    with (
        tempfile.TemporaryDirectory() as folder,
        emulator(Path(folder), "--speed", "600", containers=True) as aws,
    ):
        root = Path(folder)
        (root / "model").mkdir()
        (root / "model" / "model.safetensors").write_bytes(safetensors())
        (root / "model.py").write_text(echo.HANDLER.replace("GENERATION", "1"))
        recipe = root / "echo.yaml"
        recipe.write_text(echo.RECIPE)
        up = Lmi(program, aws.environment(root))("up", str(recipe), "--yes")
    say(f"  {number} of {RUNS}: up {up.seconds:.2f} s, our own share of it {_own_share(up):.2f} s")
    return up


def _phases(up: CycleResult) -> dict[str, float]:
    """Seconds, in order; they add up to the whole."""
    finished = {event["key"].partition(":")[0]: float(event["seconds"]) for _, event in up.named("finished")}
    response = float(up.named("answered")[0][1]["seconds"])
    parts = {
        "start, look and plan": up.named("plan")[0][0],
        "bucket": finished.get("MakeBucket", 0.0),
        "weights and artifact": finished.get("PushWeights", 0.0) + finished.get("PutArtifact", 0.0),
        "model, config and endpoint": sum(
            finished.get(name, 0.0) for name in ("CreateModel", "CreateEndpointConfig", "CreateEndpoint")
        ),
        _CONTAINER: finished["AwaitService"],
        _RESPONSE: response,
    }
    return {**parts, "between and after": up.seconds - sum(parts.values())}


def _own_share(up: CycleResult) -> float:
    parts = _phases(up)
    return up.seconds - parts[_CONTAINER] - parts[_RESPONSE]


def _phases_text(ups: list[CycleResult]) -> str:
    rows = [_phases(up) for up in ups]
    return ", ".join(f"{name} {median(row[name] for row in rows):.2f} s" for name in rows[0])
