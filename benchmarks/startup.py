"""How long `lmi` takes to get going, against the least that any click program needs."""

from __future__ import annotations

from pathlib import Path
from statistics import median

from benchmarks.installed import installed
from benchmarks.measure import ROOT, in_turns, ratios
from benchmarks.result import Figure, Result

RUNS = 25
CLICK, HELP, VALIDATE = 'python -c "import click"', "lmi --help", "lmi validate recipes/quickstart.yaml"
KEY_PRESS = "a key press in a shell: lmi up --set endpoint.ta"
AIMS = {HELP: 1.2, VALIDATE: 3.0}
KEY_SECONDS = 0.1
"""What a user takes for at once."""


def run() -> Result:
    """Ratios of medians are published; those of each turn are the samples."""
    core = installed()
    commands: dict[str, list[str | Path]] = {
        CLICK: [core.python, "-c", "import click"],
        HELP: [core.lmi, "--help"],
        VALIDATE: [core.lmi, "validate", ROOT / "recipes" / "quickstart.yaml"],
        KEY_PRESS: ["env", "_LMI_COMPLETE=bash", core.lmi, "up", "--set", "endpoint.ta"],
    }
    samples = in_turns(commands, runs=RUNS)
    return Result(
        what="wall-clock of whole processes, of the installed wheel, taken in turns",
        figures=[
            *(_ratio(name, samples) for name in AIMS),
            *(Figure.typical(f"`{name}`", runs) for name, runs in samples.items() if name != KEY_PRESS),
            Figure.typical(KEY_PRESS, samples[KEY_PRESS], at_most=KEY_SECONDS),
        ],
        versions=core.versions(),
    )


def _ratio(name: str, samples: dict[str, list[float]]) -> Figure:
    return Figure(
        what=f"`{name}` compared with `{CLICK}`",
        value=median(samples[name]) / median(samples[CLICK]),
        unit="x",
        runs=ratios(samples[name], samples[CLICK]),
        at_most=AIMS[name],
    )
