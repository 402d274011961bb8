"""What a Hub can do to a download, done to ours: the right bytes, or an error and nothing under a final name."""

from __future__ import annotations

from importlib.metadata import version

from benchmarks.result import Figure, Result
from benchmarks.suites import cases

SUITES = {
    "Faults of the Hub and the network that a download survives or reports": "tests/integration/hub/test_faults.py",
    "Interrupted or killed downloads that keep complete files": "tests/integration/hub/test_interrupted_downloads.py",
    "Errors of the Hub and unsafe file names that are reported with a remedy": "tests/integration/hub/test_access.py",
}


def run() -> Result:
    return Result(
        what="cases of the Hub's contract tests, run against the local Hub with its fault rules",
        figures=[_figure(what, place) for what, place in SUITES.items()],
        versions={name: version(name) for name in ("lmi-deploy", "pytest", "huggingface_hub", "aiohttp")},
    )


def _figure(what: str, place: str) -> Figure:
    right, tried = cases(place)
    return Figure(what=what, value=right, unit="", total=tried)
