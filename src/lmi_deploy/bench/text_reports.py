"""A report as Markdown, CSV and JUnit XML."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from lmi_deploy.bench.cost import BILLED_RATES, cost_per_million
from lmi_deploy.bench.percentiles import percentile_name
from lmi_deploy.bench.report import LoadPoint, Report, SearchAnswer
from lmi_deploy.bench.table_cells import NOTHING, input_counter
from lmi_deploy.domain.report_table import ReportTable

_RATES: Final = (*(name for _, name in BILLED_RATES), "goodput_per_s")


def to_markdown(report: Report, tables: Iterable[ReportTable]) -> str:
    parts = [f"# {report.name}", "", headline(report), ""]
    for table in tables:
        parts += [f"## {table.title}", ""]
        if table.rows:
            parts += [_row(table.columns), _row("---" for _ in table.columns), *map(_row, table.rows), ""]
        parts += [f"- {note}" for note in table.notes] + ([""] if table.notes else [])
    return "\n".join(parts).rstrip() + "\n"


def headline(report: Report) -> str:
    """The conclusion in a line: what is invalid, else the verdict."""
    broken = [point.name for point in report.points if not point.is_valid]
    points = f"{len(report.points)} points" if len(report.points) != 1 else "1 point"
    requests = f"{points}, {sum(point.counts.sent for point in report.points):,} requests"
    stopped = "; interrupted before its end" if report.interrupted else ""
    if report.search:
        return f"{report.search.state}: {report.search.text} ({requests}{stopped})"
    if broken:
        more = f" and {len(broken) - 3} more" if len(broken) > 3 else ""
        return f"INVALID: {'; '.join(broken[:3])}{more} ({requests}{stopped})"
    if report.judgement:
        return f"{report.judgement}: {', '.join(report.objectives)} ({requests}{stopped})"
    return f"{requests}{stopped}"


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def to_csv(report: Report) -> str:
    """A line a point, all figures in base units (seconds, per second); what is undecided is empty."""
    names = list(dict.fromkeys(name for point in report.points for name in point.factors))
    lines = [_csv_fields(point, names) for point in report.points]
    heads = list(dict.fromkeys(head for line in lines for head in line))
    out = io.StringIO()
    writer = csv.DictWriter(out, heads, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return out.getvalue()


def _csv_fields(point: LoadPoint, names: Iterable[str]) -> dict[str, object]:
    fields: dict[str, object] = {"point": point.name}
    fields |= {f"factor.{name}": point.factors.get(name, "") for name in names}
    fields |= {
        "load": point.load.kind,
        "concurrency": point.load.concurrency,
        "asked_rate": point.load.rate,
        "ramp_to": point.load.ramp.to if point.load.ramp else None,
        "valid": point.is_valid,
        "seconds": point.seconds,
        "sent": point.counts.sent,
        "failed": point.counts.failed,
        "in_flight": point.in_flight,
        "input_tokens": point.counts.input_tokens if point.counts.input_counted else None,
        "input_counted_by": input_counter(point.counts).strip(NOTHING),
        "output_tokens": point.counts.output_tokens or None,
        "instance": point.billed.instance,
        "instances": point.billed.count,
    }
    for name in _RATES:
        rate = point.rates.get(name)
        fields |= {
            name: rate.value if rate else None,
            f"{name}.low": rate.interval[0] if rate and rate.interval else None,
            f"{name}.high": rate.interval[1] if rate and rate.interval else None,
        }
    for name, summary in point.metrics.items():
        low, high = summary.interval or (None, None)
        fields |= {f"{name}.n": summary.n, f"{name}.mean": summary.mean, f"{name}.sd": summary.deviation}
        fields |= {f"{name}.mean.low": low, f"{name}.mean.high": high}
        fields |= {f"{name}.min": summary.least, f"{name}.max": summary.greatest}
        fields |= {f"{name}.{percentile_name(one.quantile)}": one.value for one in summary.percentiles}
    price = point.billed.price
    if price:
        units = [unit for unit, _ in BILLED_RATES]
        fields |= {
            f"cost_per_million.{unit.replace(' ', '_')}": cost_per_million(point, unit) for unit in units
        }
        fields |= {"price_per_hour": price.hourly, "currency": price.currency, "price_source": price.source}
    return fields


def to_junit(report: Report) -> str:
    """For a gate in CI: an objective a test case. FAIL is a failure; UNDECIDED is skipped; an invalid point is an
    error. A search is one test case: some of its steps must fail.
    """
    root = Element("testsuites", name=report.name)
    if report.search:
        root.append(_search_suite(report.search))
        return _document(root)
    for point in report.points:
        cases = [*_cases(point)]
        suite = SubElement(
            root, "testsuite", name=point.name, timestamp=point.began, time=f"{point.seconds:.3f}"
        )
        counted = {"failures": "failure", "errors": "error", "skipped": "skipped"}
        suite.set("tests", str(len(cases)))
        for attribute, tag in counted.items():
            suite.set(attribute, str(sum(case.find(tag) is not None for case in cases)))
        suite.extend(cases)
    return _document(root)


def _search_suite(search: SearchAnswer) -> Element:
    tag = {"FOUND": "", "NONE": "failure", "UNDECIDED": "skipped"}[search.state]
    suite = Element("testsuite", name="search", tests="1", errors="0")
    suite.set("failures", str(int(tag == "failure")))
    suite.set("skipped", str(int(tag == "skipped")))
    case = SubElement(suite, "testcase", classname="search", name=search.kind)
    if tag:
        SubElement(case, tag, message=_xml(search.text))
    return suite


def _document(root: Element) -> str:
    indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _cases(point: LoadPoint) -> Iterator[Element]:
    seconds = f"{point.seconds:.3f}"
    validity = Element("testcase", classname=point.name, name="consistency", time=seconds)
    broken = [check.text for check in point.checks if check.state == "invalid"]
    if broken:
        SubElement(validity, "error", message=_xml(broken[0])).text = _xml("\n".join(broken))
    yield validity
    for verdict in point.verdicts:
        case = Element("testcase", classname=point.name, name=verdict.objective, time=seconds)
        if verdict.judgement != "PASS":
            tag = "failure" if verdict.judgement == "FAIL" else "skipped"
            SubElement(case, tag, message=_xml(verdict.text))
        yield case


def _xml(text: str) -> str:
    """Without the control characters that XML cannot contain."""
    return "".join(each for each in text if each in "\n\t" or each >= " ")
