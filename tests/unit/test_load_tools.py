"""What the benchmark of the client asks other load tools for, and reads in their reports. They are not run here."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import client_tools
from benchmarks.client import GAP, LATENCY, TOKENS, Samples
from benchmarks.measure import ROOT

GUIDELLM = {
    "benchmarks": [
        {
            "metrics": {
                "requests_per_second": {"successful": {"mean": 276.0}},
                "request_latency": {"successful": {"mean": 0.0313}},
            }
        }
    ]
}
AIPERF = {
    "request_throughput": {"unit": "requests/sec", "avg": 42.7},
    "request_latency": {"unit": "ms", "avg": 303.7},
}


@pytest.mark.parametrize(
    ("name", "report", "rate", "latency"),
    [("guidellm", GUIDELLM, 276.0, 0.0313), ("aiperf", AIPERF, 42.7, 0.3037)],
)
def test_rate_and_latency_are_those_of_the_report(
    name: str, report: dict[str, object], rate: float, latency: float
) -> None:
    _, read = client_tools.COMMANDS[name]
    assert read(report) == (rate, pytest.approx(latency))


@pytest.mark.parametrize("name", client_tools.TOOLS)
def test_tool_is_asked_for_the_load_and_no_network(name: str, tmp_path: Path) -> None:
    arguments, _ = client_tools.COMMANDS[name]
    for is_stream in (False, True):
        words = " ".join(arguments(tmp_path, "http://127.0.0.1:1", is_stream, 64))
        assert f"{tmp_path / 'requests.jsonl'}" in words
        assert "64" in words
        assert ("--streaming" in words or "stream=true" in words) is is_stream
        assert "--tokenizer" in words


@pytest.mark.parametrize("name", client_tools.TOOLS)
def test_tool_is_pinned_with_hashes(name: str) -> None:
    pins = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    assert f"\n{name}==" in pins
    assert "--hash=sha256:" in pins
    assert "://" not in pins


def test_samples_of_streams_are_compared_with_the_length_of_a_stream() -> None:
    assert pytest.approx(0.25) == GAP * TOKENS
    assert Samples(concurrency=64, ideal=LATENCY).shares() == []
