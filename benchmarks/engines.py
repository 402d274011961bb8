"""Tokens per second of the real engines on this machine's processor: vLLM beside the transformers handler.

The recipes quickstart and quickstart-vllm as they are, one after the other, each with one worker: chats of 32 tokens,
one at a time, and 16 at once. vLLM computes in fp32 (in bf16 it answers wrongly on a CPU), the handler in the bf16 of
the checkpoint. The environments are built first, which is not measured; vLLM's takes 6.9 GB.
"""

from __future__ import annotations

import json
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

from benchmarks.cycle import PROMPT, Lmi
from benchmarks.deployment import hub
from benchmarks.installed import installed
from benchmarks.measure import say
from benchmarks.result import Figure, Result

TOKENS, AT_ONCE = 32, 16
RUNS = {1: 5, AT_ONCE: 3}
ENGINES = {"quickstart": "transformers handler", "quickstart-vllm": "vLLM"}
_TIMEOUT = 900.0


def run() -> Result:
    local = installed("local")
    with hub() as address, tempfile.TemporaryDirectory() as state:
        lmi = Lmi(local.lmi, {"HF_ENDPOINT": address, "LMI_STATE_HOME": state})
        figures = [figure for name in ENGINES for figure in _measured(lmi, name)]
    return Result(
        what="real engines on the processor of this machine, SmolLM2-135M-Instruct, one worker each",
        figures=figures,
        versions=local.versions(),
        details={
            "request": f"{PROMPT} ({TOKENS} tokens, temperature 0)",
            "rate": "all tokens of a run by its time on the clock, reading of the prompt included",
            "dtype": "vLLM fp32, transformers handler bf16",
        },
    )


def _measured(lmi: Lmi, name: str) -> list[Figure]:
    """One deployment, from `up` to `down`."""
    say(f"  {name}: lmi up")
    try:
        up = lmi("up", f"recipes/{name}.yaml", "--yes", "--set", "properties.maxWorkers=1")
        address = up.result["address"]
        _rate(address, AT_ONCE)  # once, not counted: the first requests are slower
        return [_figure(address, name, at_once) for at_once in RUNS]
    finally:
        lmi("down", name, "--yes")


def _figure(address: str, name: str, at_once: int) -> Figure:
    rates = []
    for number in range(1, RUNS[at_once] + 1):
        rates.append(_rate(address, at_once))
        say(f"  {name}, {at_once} at once, {number} of {RUNS[at_once]}: {rates[-1]:.1f} tokens/s")
    words = "one request at a time" if at_once == 1 else f"{at_once} requests at once"
    return Figure.typical(f"{ENGINES[name]} on the CPU, {words}", rates, "tokens/s")


def _rate(address: str, at_once: int) -> float:
    """Tokens per second over requests that start together."""
    with ThreadPoolExecutor(at_once) as pool:
        started = time.perf_counter()
        tokens = sum(pool.map(_tokens, [address] * at_once))
        return tokens / (time.perf_counter() - started)


def _tokens(address: str) -> int:
    """Of one answer, by the server's own count."""
    messages = [{"role": "user", "content": PROMPT}]
    body = json.dumps({"messages": messages, "max_tokens": TOKENS, "temperature": 0}).encode()
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:
        used = int(json.load(response)["usage"]["completion_tokens"])
    if used != TOKENS:
        raise SystemExit(f"error: {used} tokens instead of {TOKENS}: the rates cannot be compared")
    return used
