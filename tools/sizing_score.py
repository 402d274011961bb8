"""How right `sizing/` is: judge every published pair of tools/sizing_pairs.json.

`python -m tools.sizing_score [build|left-out]` prints the score and each pair that is judged wrong.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lmi_deploy.domain.byte_units import GIB
from lmi_deploy.sizing.devices import Devices, instance_devices, named_devices
from lmi_deploy.sizing.fit_assessment import Checkpoint, Fit, assess
from lmi_deploy.sizing.sizing_request import ENGINES, SizingRequest, engine_version, normalized
from lmi_deploy.sizing.tensors import CannotTell, Tensor

PAIRS: Final = Path(__file__).with_name("sizing_pairs.json")
PARTS: Final = ("build", "left-out")
USUAL_CONTEXT: Final = 4096
"""Asked where the source says that a pair runs and not at which length."""
TOKENS_WITHIN: Final = 0.02
GIB_WITHIN: Final = 0.10
_QUANTIZED_BITS: Final = {"fp8": 8.0, "mxfp4": 4.25}

Pair = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmEvaluation:
    """A pair, what lmi says of it, and whether that is right; `right` is None where it cannot be judged."""

    pair: Pair
    fit: Fit
    right: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number that an engine printed, and ours."""

    pair: Pair
    what: str
    printed: float
    ours: float
    limit: float
    counted: bool

    @property
    def off(self) -> float:
        return self.ours / self.printed - 1

    @property
    def right(self) -> bool:
        return abs(self.off) <= self.limit


def read_pairs() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(PAIRS.read_text(encoding="utf-8"))
    return table


def judge(pair: Pair, models: dict[str, Any]) -> AlarmEvaluation:
    """`fits` and `tight` both say that it runs."""
    fit = assess(_checkpoint(pair, models), _request(pair, models), _devices(pair))
    if fit.verdict == "unknown" or pair.get("result") is None:
        return AlarmEvaluation(pair=pair, fit=fit, right=None)
    return AlarmEvaluation(
        pair=pair, fit=fit, right=(fit.verdict != "does-not-fit") == (pair["result"] == "runs")
    )


def figures(found: AlarmEvaluation) -> list[Figure]:
    """Tokens from the line's own GiB, and GiB where the source names GPU and utilization."""
    printed, fit, pair = found.pair["figures"], found.fit, found.pair
    shown: list[Figure] = []
    gib = printed.get("kv_gib_per_gpu") or printed.get("kv_gib_available")
    if gib and gib > 0 and printed.get("kv_tokens") and fit.token_bytes:
        own = gib * GIB / fit.token_bytes
        is_complete = "figures_of_one_rank" not in pair
        shown.append(
            _figure(pair, "tokens from GiB", printed["kv_tokens"], own, TOKENS_WITHIN, counted=is_complete)
        )
    if fit.devices is None or fit.verdict == "unknown":
        return shown
    if not gib and printed.get("kv_tokens") and fit.token_bytes:
        gib = printed["kv_tokens"] * fit.token_bytes / GIB
    if gib and gib > 0:
        named = "figures_of_one_rank" not in pair and "gpu_memory_utilization" in pair.get("options", {})
        shown.append(_figure(pair, "KV GiB", gib, fit.cache / GIB, GIB_WITHIN, counted=named))
    if printed.get("weights_gib_per_gpu"):
        own = fit.parts.get("weights", 0) / GIB
        shown.append(
            _figure(pair, "weights GiB", printed["weights_gib_per_gpu"], own, GIB_WITHIN, counted=False)
        )
    return shown


def _figure(pair: Pair, what: str, printed: float, own: float, limit: float, *, counted: bool) -> Figure:
    return Figure(pair=pair, what=what, printed=printed, ours=own, limit=limit, counted=counted)


def _checkpoint(pair: Pair, models: dict[str, Any]) -> Checkpoint:
    model = models.get(pair.get("model", ""))
    if model is None:
        return Checkpoint(table={}, trouble="the source does not name a model whose config.json is known")
    table = model["config"]
    if "parameters" not in model:
        return Checkpoint(table=table)
    method = table.get("quantization_config", {}).get("quant_method", "")
    bits = _QUANTIZED_BITS.get(method, 16)
    return Checkpoint(
        table=table, tensors=[Tensor("all.weight", "BF16", (int(model["parameters"]), 1), bits=bits)]
    )


def _request(pair: Pair, models: dict[str, Any]) -> SizingRequest:
    version, lmi = engine_version(pair.get("version"))
    context = pair.get("context")
    config = models.get(pair.get("model", ""), {}).get("config", {})
    if context is None and pair.get("result") != "fails":
        own = config.get("max_position_embeddings") or config.get("n_positions") or USUAL_CONTEXT
        context = min(USUAL_CONTEXT, own)
    return SizingRequest(
        engine=ENGINES[pair["engine"]],
        vllm=version,
        lmi=pair["lmi"] or (lmi and "version" in pair),
        degree=pair.get("degree"),
        context=context,
        options=normalized(pair.get("options", {})),
    )


def _devices(pair: Pair) -> Devices | None:
    try:
        if "instance" in pair:
            return instance_devices(pair["instance"])
        return named_devices(pair["gpu"], pair["gpus"]) if "gpu" in pair else None
    except CannotTell:
        return None


def main(parts: Sequence[str]) -> int:
    table = read_pairs()
    for part in parts or PARTS:
        found = [judge(pair, table["models"]) for pair in table["pairs"] if pair["part"] == part]
        print(f"== {part}: {score(found)}")
        for one in found:
            if one.right is False:
                print(f"wrong: {_line(one)}")
        for one in found:
            for figure in figures(one):
                mark = "" if figure.right else " OFF" if figure.counted else " (off, not counted)"
                print(
                    f"{figure.what}: {figure.printed:g} ours {figure.ours:.5g} {figure.off:+.1%}{mark} {_line(one)}"
                )
    return 0


def tally(found: Sequence[AlarmEvaluation]) -> tuple[int, int, int, int]:
    """Pairs, those that can be judged, those judged correctly, and how often lmi says `fits` of a pair that fails."""
    pairs = [one for one in found if one.pair["kind"] == "pair"]
    evaluation = [one for one in pairs if one.right is not None]
    false_fits = sum(one.fit.verdict == "fits" and one.pair["result"] == "fails" for one in found)
    return len(pairs), len(evaluation), sum(bool(one.right) for one in evaluation), false_fits


def score(found: Sequence[AlarmEvaluation]) -> str:
    pairs, evaluation, right, false_fits = tally(found)
    share = f"{right / max(1, evaluation):.1%}"
    return f"{right} of {evaluation} verdicts correct ({share}), {pairs} pairs, {false_fits} false fits"


def _line(one: AlarmEvaluation) -> str:
    pair, fit = one.pair, one.fit
    output = f"{pair['said']} on {pair['where']} tp {pair.get('degree')} {pair['engine']} {pair.get('version', '')}"
    requested = f"context {fit.context}, cache {fit.cache / GIB:.2f} GiB, needs {fit.needed / GIB:.2f}"
    parts = ", ".join(f"{name} {size / GIB:.2f}" for name, size in fit.parts.items())
    return f"{output}: {pair.get('result')}, lmi says {fit.verdict}: {fit.reason}; {requested}; {parts}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
