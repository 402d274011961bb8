"""An error or a log, explained where what happened is known: cause, remedy and where it is written down."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from lmi_deploy.errors import LmiError
from lmi_deploy.planning.diagnose import Diagnosis, DiagnosisContext, diagnose
from lmi_deploy.planning.worker_error import lead_with_error

READ_LINES = 20_000
"""The newest of a log, which is enough for several lives of a worker."""


def explain(error: LmiError, engine: str) -> None:
    """Add the cause to the message and the remedy to the hint, where the lines that came with the error tell them."""
    if not error.details:
        return
    found = diagnose([*error.details, error.message], DiagnosisContext(where="container_log", engine=engine))
    error.message = lead_with_error(error.message, error.details)
    if found is not None and not found.wrapper:
        error.message = f"{error.message.rstrip('.')}. {found.cause}"
        error.hint = "; ".join(filter(None, (advice(found), error.hint)))


def of_log(lines: Iterable[str], engine: str) -> Diagnosis | None:
    """What a log tells; None where it holds nothing that is known, or only that something failed."""
    kept = deque(lines, maxlen=READ_LINES)
    found = diagnose(list(kept), DiagnosisContext(where="container_log", engine=engine))
    return None if found is None or found.wrapper else found


def advice(found: Diagnosis) -> str:
    """What to do, and where more of it is."""
    return f"{found.remedy.rstrip('.')} ({found.link})"
