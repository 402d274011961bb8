"""Groups of the recipe's `endpoint`: the instance types that it may use, and a model's part of a shared instance."""

# Without `from __future__ import annotations`: see recipe_keys.py.
from dataclasses import dataclass
from typing import Annotated

from lmi_deploy.domain.recipe_key_types import Doc, Integer, Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class InstancePools:
    provision_timeout: Annotated[
        int,
        Seconds(300, 3600),
        Doc("How long SageMaker looks for capacity, in all pools together.", "15m"),
    ] = 1800


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    copies: Annotated[
        int | None,
        Integer(1, 1_000),
        Doc("Copies of the model, each with its own share; by default 1, or autoscaling's larger min.", "2"),
    ] = None
    accelerators: Annotated[
        int | None,
        Integer(1, 64),
        Doc("Accelerators of each copy; by default those that `tensor_parallel_degree` needs.", "1"),
    ] = None
    memory_mb: Annotated[
        int | None,
        Integer(128, 30_000_000),
        Doc(
            "MiB of the instance's memory that each copy has to itself; by default the weights and 2048, at most its "
            "accelerators' part of nine tenths of the memory.",
            "24576",
        ),
    ] = None
    cpus: Annotated[
        int | None,
        Integer(1, 1_000),
        Doc("CPU cores that each copy has to itself; by default none are set aside.", "4"),
    ] = None
