"""Compare a deployment with its record: in sync, drifted, absent, starting, failed and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lmi_deploy.domain.observed_state import ObservedServer
from lmi_deploy.domain.recipe_key_types import Seconds
from lmi_deploy.domain.record import NOT_KNOWN, Author, DeploymentRef, DeploymentStatus, Generation
from lmi_deploy.domain.sagemaker.endpoint_metrics import RecentMetrics
from lmi_deploy.domain.sagemaker.resource_settings import ObservedEndpoint
from lmi_deploy.domain.sagemaker.transfer_job import ObservedJob
from lmi_deploy.errors import LmiError, NotFound
from lmi_deploy.planning.failure_cause import Cause
from lmi_deploy.workflows.call_examples import call_examples
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.error_diagnosis import advice, of_log

EVERY: Final = Seconds(5, 3600)
"""Between two reads of `lmi status --watch`."""
EXIT: dict[DeploymentStatus, int] = {"in-step": 0, "starting": 4, "drifted": 4, "absent": 4, "failed": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviousGeneration:
    """A generation that does not serve any more."""

    number: int
    config: str
    since: str
    model: str
    commit: str
    instance: str
    gone: str
    """Why a rollback to it is impossible; empty if it is possible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    ref: DeploymentRef
    standing: DeploymentStatus
    why: str
    address: str
    server: ObservedServer | None
    """Target local."""
    endpoint: ObservedEndpoint | None
    """Target sagemaker."""
    summary: dict[str, str]
    since: str
    author: Author = NOT_KNOWN
    """Target sagemaker: who put it there, from which recipe."""
    jobs: tuple[ObservedJob, ...] = ()
    """Target sagemaker: transfer and compile jobs that have machines."""
    cause: str = ""
    remedy: str = ""
    """If it failed and its log gives the reason."""
    cost: str = ""
    scaling: str = ""
    """Target sagemaker: the registered autoscaling, in words."""
    alarms: str = ""
    """Target sagemaker: the state of each alarm of the recipe, by CloudWatch."""
    expires: str = ""
    """Target sagemaker: when `lmi gc` may delete it; ISO 8601."""
    expired: bool = False
    """Whether that was before now."""
    scheduled: bool = False
    """Whether AWS deletes it then, with no lmi running."""
    earlier: tuple[PreviousGeneration, ...] = ()
    """Target sagemaker: the generations for `lmi rollback --to N`."""
    metrics: RecentMetrics | None = None
    """Target sagemaker: of the last hour, by CloudWatch."""
    candidate_metrics: RecentMetrics | None = None
    """The same of its candidate; `metrics` are then those of the version that serves."""
    calls: str = ""
    """With --calls: commands and code that call it; empty if nothing serves."""


def status(ref: DeploymentRef, deps: Dependencies, *, calls: bool = False) -> Status:
    """Never resolves: it works if the Hub is down or the model is deleted. `calls`: with how to call it."""
    target = deps.targets[ref.target]
    observed = target.inspect(ref)
    if any(missing for _, missing in target.earlier(observed)):
        observed = target.confirm(observed)  # the tag search may only not know them yet
    status, why = target.status_of(observed)
    record, details = observed.record, target.details(observed)
    current = record.current if record else None
    generation = current or (record.coming if record else None)
    found = _diagnosis(ref, deps, generation) if status == "failed" else None
    return Status(
        ref=observed.ref,
        standing=status,
        why=why,
        address=details.address,
        server=details.server,
        endpoint=details.endpoint,
        jobs=details.jobs,
        summary=generation.serving.summary if generation else {},
        since=current.since if current else "",
        author=record.periods[-1].by if record and record.periods else NOT_KNOWN,
        cause=found.cause if found else "",
        remedy=advice(found) if found else "",
        cost=target.hourly_cost(observed),
        scaling=details.scaling,
        alarms=details.alarms,
        expires=details.expires,
        expired=details.expired,
        scheduled=details.scheduled,
        earlier=tuple(_earlier(target.earlier(observed))),
        metrics=target.recent_metrics(observed),
        candidate_metrics=target.recent_metrics(observed, candidate=True),
        calls=call_examples(observed.ref, current.serving, target, target.address(observed.ref))
        if calls and current
        else "",
    )


def watched(ref: DeploymentRef, deps: Dependencies, *, every: float) -> Iterator[Status | LmiError]:
    """Its state now and again after each pause, without end. An error of the first one is raised; a later one may pass,
    so it is yielded.
    """
    yield status(ref, deps)
    while True:
        deps.clock.sleep(every)
        found: Status | LmiError
        try:
            found = status(ref, deps)
        except LmiError as error:
            found = error
        yield found


def _earlier(found: tuple[tuple[Generation, str], ...]) -> Iterator[PreviousGeneration]:
    for number, (generation, missing) in enumerate(found, start=1):
        yield PreviousGeneration(
            number=number,
            config=generation.server,
            since=generation.since,
            model=generation.serving.model,
            commit=generation.serving.commit,
            instance=generation.instance,
            gone=missing,
        )


def _diagnosis(ref: DeploymentRef, deps: Dependencies, generation: Generation | None) -> Cause | None:
    engine = generation.serving.engine if generation else ""
    try:
        return of_log(deps.targets[ref.target].logs(ref, follow=False), engine)
    except NotFound:  # nothing was started, so there is no log
        return None
