"""`lmi doctor`: run the checks of the set-up one after another, and lose none to the failure of another."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass

from lmi_deploy.domain.events import Event, Progress
from lmi_deploy.domain.setup_findings import ExaminedCheck, SetupFinding
from lmi_deploy.errors import LmiError

_KEY = "doctor"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupCheck:
    """`run` may raise an LmiError: then the check is broken. It ends by itself within a bounded time."""

    area: str
    name: str
    run: Callable[[], Iterable[SetupFinding]]
    online: bool = False
    """It sends requests."""
    needs: str = ""
    """The name of an earlier check; without its success this one would only repeat its failure."""


def examine(
    checks: Sequence[SetupCheck], *, offline: bool = False
) -> Generator[Event, None, tuple[ExaminedCheck, ...]]:
    """The outcome of every check, in order. `offline`: checks that send requests are listed, and not run."""
    done: dict[str, ExaminedCheck] = {}
    for place, check in enumerate(checks):
        if check.online and not offline:
            note = f"{check.area}: {check.name}"
            yield Progress(key=_KEY, done=place, total=len(checks), unit="steps", note=note)
        done[check.name] = ExaminedCheck(
            area=check.area, name=check.name, findings=_findings(check, done, offline=offline)
        )
    return tuple(done.values())


def _findings(
    check: SetupCheck, done: dict[str, ExaminedCheck], *, offline: bool
) -> tuple[SetupFinding, ...]:
    if check.online and offline:
        return (SetupFinding("not-checked", "it needs the network (--offline)"),)
    if check.needs and not done[check.needs].passed:
        return (SetupFinding("not-checked", f"{check.needs}: see above"),)
    try:
        return tuple(check.run())
    except LmiError as error:
        return (SetupFinding("broken", error.message, error.hint), *_more(error))


def _more(error: LmiError) -> Iterable[SetupFinding]:
    return (SetupFinding("broken", detail) for detail in error.details)
