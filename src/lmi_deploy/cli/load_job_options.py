"""The options of `lmi bench run` for a load that a job sends, and what a machine of that job runs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from lmi_deploy.domain.sagemaker.load_job_options import LoadJobOptions
from lmi_deploy.errors import UsageRefused

F = TypeVar("F", bound=Callable[..., Any])
_OPTIONS: Final = (
    click.option(
        "--via",
        type=click.Choice(["here", "job"]),
        default="here",
        show_default=True,
        help="What sends the load: this machine, or the machines of a SageMaker processing job.",
    ),
    click.option(
        "--instances",
        type=click.IntRange(1, 100),
        metavar="N",
        help="With --via job: machines that share each load.  [default: 1]",
    ),
    click.option(
        "--job-instance-type",
        metavar="TYPE",
        help="With --via job: processing instance type.  [default: ml.c5.xlarge]",
    ),
    click.option(
        "--job-role", metavar="ROLE", help="With --via job: the role of the job.  [default: lmi-load-job]"
    ),
    click.option(
        "--job-time-limit",
        type=click.IntRange(60, 432_000),
        metavar="SECONDS",
        help="With --via job: SageMaker stops the job after this time.  [default: the longest time of its loads]",
    ),
)
_NAMES: Final = ("instances", "job_instance_type", "job_role", "job_time_limit")


def load_job_options(function: F) -> F:
    """The command gets `by_job`, a LoadJobOptions, or None."""

    @functools.wraps(function)
    def wrapped(*, via: str, **given: Any) -> Any:
        asked = {name: given.pop(name) for name in _NAMES}
        return function(by_job=_asked(via, asked), **given)

    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[return-value]


def _asked(via: str, asked: dict[str, Any]) -> LoadJobOptions | None:
    if via != "job":
        if unused := next((name for name in _NAMES if asked[name] is not None), None):
            flag = unused.replace("_", "-")
            raise UsageRefused(f"--{flag} has no effect without --via job", hint="add --via job, or omit it")
        return None
    _require_instance_type(asked["job_instance_type"])
    return LoadJobOptions(
        instances=asked["instances"] or 1,
        instance_type=asked["job_instance_type"],
        role=asked["job_role"],
        time_limit=asked["job_time_limit"],
    )


def _require_instance_type(given: str | None) -> None:
    if given is None:
        return
    from lmi_deploy.catalog import sagemaker_limits
    from lmi_deploy.recipe.name_suggestions import suggestion_text

    known = sagemaker_limits.names("job_instance_types")
    if given not in known:
        raise UsageRefused(
            f"--job-instance-type {given}: SageMaker has no processing instance type of this name",
            hint=suggestion_text(given, known) or "for example ml.c5.xlarge",
        )
