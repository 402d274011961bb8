"""Names of an account's jobs, from SageMaker's lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from lmi_deploy.aws.client import Service

_PAGE: Final = 100
"""The most that ListProcessingJobs and ListOptimizationJobs return at once (botocore's service model, MaxResults)."""


class JobList(NamedTuple):
    """A call, the member of its response that lists jobs, and the one with a job's name."""

    call: str
    items: str
    name: str


def job_names(api: Service, listed: JobList, filters: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Those that match one of the filters. Statuses come in the order in which a job goes through them, so that a job
    whose status changes between two requests is in one of the lists.
    """
    return frozenset(
        str(job[listed.name])
        for kept in filters
        for job in api.pages(
            listed.call,
            listed.call.replace("_", " "),
            token="NextToken",
            items=listed.items,
            MaxResults=_PAGE,
            # New jobs come at the end, so that no job moves to a page that was already read.
            SortBy="CreationTime",
            SortOrder="Ascending",
            **kept,
        )
    )


def moment_text(found: datetime | None) -> str:
    return found.isoformat(timespec="seconds") if found else ""
