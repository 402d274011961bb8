"""What a user asks of the machines that send load."""

from __future__ import annotations

from dataclasses import dataclass

from lmi_deploy.domain.recipe_bench_keys import Bench


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadJobOptions:
    """None: lmi chooses."""

    instances: int
    instance_type: str | None = None
    role: str | None = None
    time_limit: int | None = None
    """Seconds, from when its machines run."""


def load_job_of_recipe(bench: Bench) -> LoadJobOptions | None:
    """None: this machine sends the load."""
    if bench.via != "job":
        return None
    return LoadJobOptions(
        instances=bench.instances or 1,
        instance_type=bench.job_instance_type,
        role=bench.job_role,
        time_limit=bench.job_time_limit,
    )
