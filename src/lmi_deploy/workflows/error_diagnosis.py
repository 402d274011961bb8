"""Explain a failure by its log: cause, line, remedy, and where to read more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.errors import LmiError
from lmi_deploy.planning.cause_search import find_causes
from lmi_deploy.planning.failure_cause import Cause
from lmi_deploy.planning.log_diagnosis import DiagnosisContext
from lmi_deploy.planning.setting_names import with_recipe_keys
from lmi_deploy.planning.traceback_error import lead_with_error
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.log_excerpt import LogExcerpt, excerpt

_SHOWN = 300
"""Characters of a log's line in an error message."""


@dataclass(frozen=True, slots=True)
class DiagnosedLog:
    """`causes` are the most likely first; empty if the log shows no failure."""

    causes: tuple[Cause, ...]
    lines: int
    serves: bool = False
    """Whether the deployment is in step: then what failed was a request, or an earlier start."""


def explain(error: LmiError, engine: str) -> None:
    """Add the cause and its line to the message, and the remedy to the hint, if the lines of the error show them."""
    if not error.details:
        return
    causes = find_causes([*error.details, error.message], _context(engine))
    error.message = lead_with_error(error.message, error.details)
    found = causes[0] if causes else None
    if found is None or found.wrapper:
        return
    parts = [error.message.rstrip(".")]
    if found.explained:
        parts.append(found.cause.rstrip("."))
    if found.evidence not in error.message and found.line <= len(error.details):
        parts.append(f"The log's line: {found.evidence[:_SHOWN].rstrip('.')}")
    error.message = ". ".join(parts) + "." * found.explained
    if found.explained:
        error.hint = "; ".join(filter(None, (advice(found), error.hint)))


def of_log(lines: Iterable[str], engine: str) -> Cause | None:
    """The first cause of a log; None if it shows nothing, or only that something failed."""
    found = of_excerpt(excerpt(lines), engine).causes
    return found[0] if found and not found[0].wrapper else None


def of_excerpt(log: LogExcerpt, engine: str = "") -> DiagnosedLog:
    return DiagnosedLog(tuple(find_causes(log.lines, _context(engine))), log.total)


def of_deployment(ref: DeploymentRef, deps: Dependencies) -> DiagnosedLog:
    """By the log that `lmi logs` shows, and by what the target says about a deployment that failed."""
    target = deps.targets[ref.target]
    observed = target.observe(ref)
    record = observed.record
    generation = (record.current or record.coming) if record else None
    engine = generation.serving.engine if generation else ""
    serves = target.status_of(observed)[0] == "in-step"
    return replace(of_excerpt(excerpt(target.logs(observed.ref, follow=False)), engine), serves=serves)


def advice(found: Cause) -> str:
    """What to do, and where to read more."""
    more = f"`{found.more}`" if found.more else found.source
    return with_recipe_keys(found.remedy).rstrip(".") + (f" ({more})" if more else "")


def _context(engine: str) -> DiagnosisContext:
    return DiagnosisContext(where="container_log", engine=engine)
