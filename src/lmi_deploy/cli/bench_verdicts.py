"""What the verdicts of a measurement mean for the exit code."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from lmi_deploy.domain.number_text import counted
from lmi_deploy.errors import ObjectiveMissed, Undecided

if TYPE_CHECKING:
    from lmi_deploy.bench.report import Report

F = TypeVar("F", bound=Callable[..., Any])
UndecidedIs = Literal["pass", "fail"]


def undecided_option(default: UndecidedIs) -> Callable[[F], F]:
    return click.option(
        "--undecided",
        type=click.Choice(["pass", "fail"]),
        default=default,
        show_default=True,
        help="With fail, the exit code is 8 if there are too few requests for a verdict.",
    )


def require_objectives(report: Report, undecided: UndecidedIs) -> None:
    """ObjectiveMissed of what is not met, or not shown to be because the measurement is INVALID; Undecided."""
    if report.search is not None:
        if report.judgement == "FAIL":
            hint = "start at a lower --rate, or change the deployment"
            raise ObjectiveMissed(f"{report.name}: {report.search.text}", hint=hint)
        if report.judgement == "UNDECIDED" and undecided == "fail":
            hint = "measure longer (--duration), or accept it with --undecided pass"
            raise Undecided(f"{report.name}: UNDECIDED: {report.search.text}", hint=hint)
        return
    if failed := _verdicts(report, "FAIL"):
        raise ObjectiveMissed(
            f"{report.name}: {counted(len(failed), 'objective')} not met",
            hint="lower the load, or change the deployment; `lmi bench report` shows the figures",
            details=failed,
        )
    if not report.is_valid and report.objectives:
        raise ObjectiveMissed(
            f"{report.name}: the measurement is INVALID, so no objective is shown to be met",
            hint="measure again as its checks say",
        )
    if (left := _verdicts(report, "UNDECIDED")) and undecided == "fail":
        raise Undecided(
            f"{report.name}: {counted(len(left), 'objective')} UNDECIDED",
            hint="send more requests (--requests, --duration), or accept it with --undecided pass",
            details=left,
        )


def _verdicts(report: Report, judgement: str) -> list[str]:
    return [
        f"{point.name}: {one.objective}: {one.text}"
        for point in report.points
        for one in point.verdicts
        if one.judgement == judgement
    ]
