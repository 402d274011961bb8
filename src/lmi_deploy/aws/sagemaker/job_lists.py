"""Which of an account's jobs have machines, from SageMaker's lists of jobs."""

from __future__ import annotations

from typing import Final

from lmi_deploy.aws.client import Service

_PAGE: Final = 100
"""The most that ListProcessingJobs and ListOptimizationJobs return at once (botocore's service model, MaxResults)."""


def running_names(
    api: Service, call: str, what: str, *, items: tuple[str, str], statuses: tuple[str, ...]
) -> frozenset[str]:
    """`items`: the member that lists jobs, and the one with a job's name. `statuses` in the order in which a job goes
    through them, so that a job whose status changes between two requests is in one of the lists.
    """
    listed, name = items
    return frozenset(
        str(job[name])
        for status in statuses
        for job in api.pages(
            call,
            what,
            token="NextToken",
            items=listed,
            MaxResults=_PAGE,
            StatusEquals=status,
            # New jobs come at the end, so that no job moves to a page that was already read.
            SortBy="CreationTime",
            SortOrder="Ascending",
        )
    )
