"""What guidellm and aiperf say of a load, each in an environment of its own, which is made by the first use
(aiperf 0.84 GB; guidellm 5.5 GB with torch, unless uv's cache has it).

Neither needs the network then: the requests are a file, and tokens are counted by a tokenizer on this machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.measure import checked
from lmi_deploy.planning.stand_in_model import tokenizer_files
from tools.pinned_environment import pinned_environment

SECONDS = 10
"""Streams begin and end together: in 5 s a round more or less would be 5 %."""
WARM_UP = 1
_PROMPT = "Say something about the sea."
_REQUESTS = {"guidellm": 20_000, "aiperf": 64}
"""guidellm sends each line once, and ends with the last: far more than it sends in the time. aiperf begins again."""
Found = tuple[float, float]
"""Requests a second, and mean seconds of a request."""


class LoadTool:
    """`files` has its requests, its tokenizer and its report."""

    def __init__(self, name: str, files: Path) -> None:
        """SystemExit if its environment cannot be made."""
        self._program = pinned_environment(name).with_name(name)
        self._files = files
        files.mkdir(exist_ok=True)
        for file, text in tokenizer_files().items():
            (files / file).write_text(text, encoding="utf-8")
        lines = (json.dumps({"text": _PROMPT}) for _ in range(_REQUESTS[name]))
        (files / "requests.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        self._arguments, self._read = COMMANDS[name]
        # Its modules are compiled before the first run that counts.
        self.version = self._run("--version").split()[-1]

    def measure(self, kind: str, concurrency: int, port: int) -> Found:
        """As it says itself. It has all cores: it starts processes."""
        report = self._files / "report.json"
        report.unlink(missing_ok=True)
        url = f"http://127.0.0.1:{port}"
        self._run(*self._arguments(self._files, url, kind == "stream", concurrency))
        rate, latency = self._read(json.loads(report.read_text(encoding="utf-8")))
        if not rate:
            raise SystemExit(f"error: {self._program.name} reports no request: {report}")
        return rate, latency

    def _run(self, *arguments: str) -> str:
        return checked(
            [self._program, *arguments], HF_HOME=str(self._files / "hub"), HF_HUB_DISABLE_TELEMETRY="1"
        )


def _guidellm(files: Path, url: str, is_stream: bool, concurrency: int) -> list[str]:  # noqa: FBT001
    return [
        *("run", "--backend", f"kind=openai_http,target={url},model=m,stream={str(is_stream).lower()}"),
        *("--profile", f"kind=concurrent,streams={concurrency},warmup={WARM_UP}"),
        *("--constraint", f"kind=max_duration,seconds={WARM_UP + SECONDS}"),
        *("--tokenizer", f"kind=hf_auto,model={files}", "--disable-console"),
        *("--data", f"kind=json_file,path={files / 'requests.jsonl'}"),
        *("--output", f"kind=json,path={files / 'report.json'}"),
    ]


def _read_guidellm(report: Mapping[str, Any]) -> Found:
    (benchmark,) = report["benchmarks"]
    metrics = benchmark["metrics"]
    return metrics["requests_per_second"]["successful"]["mean"], metrics["request_latency"]["successful"][
        "mean"
    ]


def _aiperf(files: Path, url: str, is_stream: bool, concurrency: int) -> list[str]:  # noqa: FBT001
    return [
        *("profile", "--model", "m", "--url", url, "--endpoint-type", "chat", "--tokenizer", str(files)),
        *(["--streaming"] if is_stream else []),
        *("--concurrency", str(concurrency), "--warmup-duration", str(WARM_UP), "--ui", "none"),
        *("--benchmark-duration", str(SECONDS), "--benchmark-grace-period", "2"),
        *("--input-file", str(files / "requests.jsonl"), "--custom-dataset-type", "single_turn"),
        *("--no-gpu-telemetry", "--no-server-metrics", "--output-artifact-dir", str(files)),
        *("--profile-export-prefix", "report"),
    ]


def _read_aiperf(report: Mapping[str, Any]) -> Found:
    rate, latency = report["request_throughput"]["avg"], report["request_latency"]["avg"]
    return rate, latency / 1000


COMMANDS: Mapping[
    str,
    tuple[Callable[[Path, str, bool, int], list[str]], Callable[[Mapping[str, Any]], Found]],
] = {"guidellm": (_guidellm, _read_guidellm), "aiperf": (_aiperf, _read_aiperf)}
TOOLS = (*COMMANDS,)
