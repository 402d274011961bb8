"""Explain a known error or log: cause, remedy and link to the documentation."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from lmi_deploy.errors import LmiError
from lmi_deploy.planning.log_diagnosis import Diagnosis, DiagnosisContext, diagnose
from lmi_deploy.planning.traceback_error import lead_with_error

READ_LINES = 20_000
"""The last lines of a log, enough for several restarts of a worker."""


def explain(error: LmiError, engine: str) -> None:
    """Add the cause to the message and the remedy to the hint, if the lines of the error show them."""
    if not error.details:
        return
    found = diagnose([*error.details, error.message], DiagnosisContext(where="container_log", engine=engine))
    error.message = lead_with_error(error.message, error.details)
    if found is not None and not found.wrapper:
        error.message = f"{error.message.rstrip('.')}. {found.cause}"
        error.hint = "; ".join(filter(None, (advice(found), error.hint)))


def of_log(lines: Iterable[str], engine: str) -> Diagnosis | None:
    """The diagnosis of a log; None if it contains nothing known, or only that something failed."""
    kept = deque(lines, maxlen=READ_LINES)
    found = diagnose(list(kept), DiagnosisContext(where="container_log", engine=engine))
    return None if found is None or found.wrapper else found


def advice(found: Diagnosis) -> str:
    """What to do, and where to read more."""
    return f"{found.remedy.rstrip('.')} ({found.link})"
