"""docs/reference/sizing.md: how `lmi fit` counts, and how accurate it is on every published pair."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from lmi_deploy.domain.byte_units import GIB
from tools.sizing_score import PARTS, AlarmEvaluation, Figure, figures, judge, read_pairs, tally

_HEAD = Path(__file__).with_name("sizing_head.md")
_RULES = Path(__file__).with_name("sizing_rules.md")


@cache
def sizing_page() -> str:
    table = read_pairs()
    found = [judge(pair, table["models"]) for pair in table["pairs"]]
    lines = [
        _HEAD.read_text(encoding="utf-8"),
        *_scores(table, found),
        "",
        _RULES.read_text(encoding="utf-8"),
        *_figure_table(found),
        *_pair_tables(found),
        *_sources(table),
    ]
    return "\n".join(lines) + "\n"


def _scores(table: dict[str, Any], found: Sequence[AlarmEvaluation]) -> Iterator[str]:
    yield "| Part | pairs | judged | correct | false `fits` | tokens within 2% | GiB within 10% |"
    yield "|---|---|---|---|---|---|---|"
    for name in PARTS:
        part = [one for one in found if one.pair["part"] == name]
        all_pairs, evaluation, right, false_fits = tally(part)
        shown = [figure for one in part for figure in figures(one) if figure.counted]
        share = f"{right} ({right / max(1, evaluation):.1%})"
        tokens, gib = _share(shown, "tokens from GiB"), _share(shown, "KV GiB")
        yield f"| `{name}` | {all_pairs} | {evaluation} | {share} | {false_fits} | {tokens} | {gib} |"
    first = table["first_look"]
    yield ""
    yield (
        f"The first measurement of `left-out` ({first['date']}) had {first['right']} correct verdicts of"
        f" {first['judged']}, and {first['false_fits']} false `fits`.\nAfter it, one pair was corrected (below), and"
        " two rules were added:\n\n- the margin of 15% before vLLM 0.6; the figures of these versions in `build` were"
        " wrong, too;"
        "\n- the memory that vLLM's own code leaves outside the budget."
    )


def _share(shown: Sequence[Figure], what: str) -> str:
    counted = [one for one in shown if one.what == what]
    return f"{sum(one.right for one in counted)} of {len(counted)}"


def _figure_table(found: Sequence[AlarmEvaluation]) -> Iterator[str]:
    yield "## Figures that engines printed"
    yield ""
    yield "Some engines print in their log how they use the memory of one device. `tokens from GiB` is the number of"
    yield "tokens that lmi computes from the printed GiB. `counted` is `yes` if the figure is in the table above: the"
    yield "source names `gpu_memory_utilization` (for GiB), and the figure is not of one rank only. Weights are not"
    yield "counted."
    yield ""
    yield "| Part | Model | Device | Figure | printed | lmi | difference | counted |"
    yield "|---|---|---|---|---|---|---|---|"
    for one in found:
        for figure in figures(one):
            pair = one.pair
            yield (
                f"| {pair['part']} | {pair['said']} | {_device(one)} | {figure.what} | {figure.printed:.6g} |"
                f" {figure.ours:.6g} | {figure.off:+.1%} | {'yes' if figure.counted else 'no'} |"
            )
    yield ""


def _pair_tables(found: Sequence[AlarmEvaluation]) -> Iterator[str]:
    for part in PARTS:
        yield f"## Pairs: {part}"
        yield ""
        yield "| Model | Device | Engine | Context | Published | lmi | Cache GiB | Source |"
        yield "|---|---|---|---|---|---|---|---|"
        yield from sorted(
            _row(one) for one in found if one.pair["part"] == part and one.pair["kind"] == "pair"
        )
        yield ""


def _row(one: AlarmEvaluation) -> str:
    pair, fit = one.pair, one.fit
    engine = f"{pair['engine']} {pair.get('version', '')}".strip()
    engine += f" (for {pair['stands_for']})" if "stands_for" in pair else ""
    verdict = {True: "", False: "**wrong**: ", None: ""}[one.right] + fit.verdict
    why = f" ({fit.reason})" if one.right is None else ""
    cache = f"{fit.cache / GIB:.1f}" if fit.context else ""
    return (
        f"| {pair['said']} | {_device(one)} | {engine} | {fit.context or ''} | {pair['how']} | {verdict}{why} |"
        f" {cache} | {pair['source']} |"
    )


def _device(one: AlarmEvaluation) -> str:
    degree = one.fit.degree or one.pair.get("degree")
    where = one.pair.get("instance") or one.pair["where"] or "not named"
    return f"{where}, degree {degree}" if degree else where


def _sources(table: dict[str, Any]) -> Iterator[str]:
    yield "## Sources"
    yield ""
    yield f"{table['origin'][0].upper()}{table['origin'][1:]}. `gh:OWNER/REPO#N` is an issue on GitHub; `fs:N` is a"
    yield "stored copy of a page whose address is not known."
    yield ""
    yield from (f"- `{name}`: {where}" for name, where in table["sources"].items() if "<" not in name)
    yield ""
    yield (
        "Where the sizes of each model come from: "
        + "; ".join(f"{name} ({model['source']})" for name, model in sorted(table["models"].items()))
        + "."
    )
