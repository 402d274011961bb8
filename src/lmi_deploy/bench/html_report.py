"""A report as one HTML page: no script, no external resource, light and dark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Final

from lmi_deploy.bench.objectives import Objective
from lmi_deploy.bench.report import Report
from lmi_deploy.bench.report_plots import Plot, point_plots, report_plots
from lmi_deploy.bench.text_reports import headline
from lmi_deploy.domain.report_table import ReportTable

_STYLE: Final = """
:root { color-scheme: light dark; --text: #1b1f24; --soft: #57606a; --page: #ffffff; --panel: #f6f8fa;
  --line: #d0d7de; --bad: #b3261e; --good: #1a7f37; --open: #8a5a00; --heat: #0b5394;
  --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #cc79a7; --c4: #a07800; --c5: #3b9ac4; --c6: #6a3d9a;
  --c7: #555555; }
@media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --soft: #9aa4af; --page: #0d1117; --panel: #161b22;
  --line: #30363d; --bad: #ff7b72; --good: #56d364; --open: #e3b341; --heat: #79c0ff;
  --c0: #58a6ff; --c1: #ff9e57; --c2: #3fcf9f; --c3: #f1a1cf; --c4: #e3c341; --c5: #86d3f2; --c6: #c4a7f5;
  --c7: #b0b8c1; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1.5rem 1rem 4rem; color: var(--text); background: var(--page);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .3rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .6rem; }
.headline { font-size: 1.05rem; margin: 0 0 1rem; padding: .6rem .8rem; border-left: 4px solid var(--soft);
  background: var(--panel); overflow-wrap: anywhere; }
.bad { color: var(--bad); font-weight: 600; } .good { color: var(--good); font-weight: 600; }
.open { color: var(--open); }
.headline.bad { border-color: var(--bad); } .headline.good { border-color: var(--good); }
.headline.open { border-color: var(--open); }
.scroll { overflow-x: auto; } .scroll:focus-visible { outline: 2px solid var(--c0); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child, .words, .name { text-align: left; } .words { white-space: normal; min-width: 14rem; }
td:first-child { white-space: normal; min-width: 8rem; }
th { background: var(--panel); } .note { color: var(--soft); font-size: .85rem; margin: .3rem 0; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 32rem), 1fr)); gap: 1rem; }
figure { margin: 0; padding: .8rem; background: var(--panel); border: 1px solid var(--line); border-radius: 6px; }
figcaption { font-weight: 600; margin-bottom: .4rem; overflow-wrap: anywhere; }
svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--soft); font-size: 14px; } svg text.inner { fill: var(--text); }
svg text.inner.dark { fill: var(--page); } svg .grid { stroke: var(--line); stroke-width: 1; }
svg .rule { stroke: var(--bad); stroke-dasharray: 4 3; } svg text.rule { fill: var(--bad); stroke: none; }
svg polyline { fill: none; stroke-width: 2; } svg .heat { fill: var(--heat); }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1rem; font-size: .85rem; color: var(--soft); margin-top: .4rem; }
.legend svg { width: 26px; height: 10px; display: inline-block; vertical-align: middle; margin-right: .3rem; }
details { margin: .6rem 0; } summary { cursor: pointer; font-weight: 600; padding: .3rem 0; }
.none { stroke: var(--soft); }
@media (max-width: 40rem) { svg text { font-size: 19px; } th, td { padding: .3rem .4rem; } }
"""
_COLOURS: Final = "\n".join(
    f"polyline.s{n}, line.s{n} {{ stroke: var(--c{n}); }} circle.s{n} {{ fill: var(--c{n}); }}"
    for n in range(8)
)
_KIND: Final = {
    **dict.fromkeys(("PASS", "FOUND", "ok"), "good"),
    **dict.fromkeys(("FAIL", "NONE", "INVALID", "invalid"), "bad"),
    **dict.fromkeys(("UNDECIDED", "warning"), "open"),
}
_WORDS: Final = {"what", "by", "value", "price from", "objective"}
_OPEN_POINTS: Final = 2
"""So many points show their time line without a click."""


def to_html(report: Report, tables: Iterable[ReportTable], objectives: Sequence[Objective] = ()) -> str:
    title = escape(report.name)
    head = (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{_STYLE}{_COLOURS}\n</style>\n</head>\n<body>\n<main>\n"
    )
    return head + "\n".join(_body(report, tables, objectives)) + "\n</main>\n</body>\n</html>\n"


def _body(report: Report, tables: Iterable[ReportTable], objectives: Sequence[Objective]) -> Iterator[str]:
    words = headline(report)
    kind = _KIND.get(words.partition(":")[0], "")
    yield f"<h1>{escape(report.name)}</h1>"
    yield f'<p class="note">{escape(report.created)}, {escape(report.provenance.tool)}</p>'
    yield f'<p class="headline {kind}">{escape(words)}</p>'
    plots = [*report_plots(report, objectives)]
    if plots:
        yield from ('<div class="plots">', *map(_figure, plots), "</div>")
    for table in tables:
        yield from _table(table)
    yield "<h2>Over time</h2>"
    for number, point in enumerate(report.points):
        inner = "".join(map(_figure, point_plots(point)))
        if inner:
            opened = " open" if number < _OPEN_POINTS else ""
            name = escape(f"{point.name}: {point.load.words}")
            yield f'<details{opened}><summary>{name}</summary><div class="plots">{inner}</div></details>'


def _figure(plot: Plot) -> str:
    items = "".join(
        f'<span><svg viewBox="0 0 26 10" aria-hidden="true"><line class="{_colour(colour)}" x1="0" x2="26" y1="5" '
        f'y2="5" stroke-width="3" stroke-dasharray="{dash}"/></svg>{escape(name)}</span>'
        for name, colour, dash in plot.legend
    )
    legend = f'<div class="legend">{items}</div>' if items else ""
    note = f'<p class="note">{escape(plot.note)}</p>' if plot.note else ""
    return f"<figure><figcaption>{escape(plot.title)}</figcaption>{plot.svg}{legend}{note}</figure>"


def _colour(number: int) -> str:
    return "none" if number < 0 else f"s{number % 8}"


def _table(table: ReportTable) -> Iterator[str]:
    yield f"<h2>{escape(table.title)}</h2>"
    if table.rows:
        kinds = {name: _kind(name, [row[i] for row in table.rows]) for i, name in enumerate(table.columns)}
        heads = "".join(f'<th scope="col"{_class(kinds[name])}>{escape(name)}</th>' for name in table.columns)
        yield f'<div class="scroll" tabindex="0"><table><thead><tr>{heads}</tr></thead><tbody>'
        for row in table.rows:
            cells = (
                f"<td{_class(kinds[name], _KIND.get(cell, ''))}>{escape(cell)}</td>"
                for name, cell in zip(table.columns, row, strict=True)
            )
            yield f"<tr>{''.join(cells)}</tr>"
        yield "</tbody></table></div>"
    yield from (f'<p class="note">{escape(note)}</p>' for note in table.notes)


def _kind(column: str, cells: Sequence[str]) -> str:
    """Of a column: sentences, names, or numbers, which end at the right."""
    if column in _WORDS:
        return "words"
    return "" if any(cell.lstrip("-+$<>~ ")[:1].isdigit() for cell in cells) else "name"


def _class(*kinds: str) -> str:
    found = " ".join(filter(None, kinds))
    return f' class="{found}"' if found else ""
