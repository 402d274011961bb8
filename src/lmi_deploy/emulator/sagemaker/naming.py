"""The kinds of SageMaker's resources: their tables, ARNs and the words of their errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lmi_deploy.emulator.store import Row
from lmi_deploy.emulator.wire.errors import ApiError, refused
from lmi_deploy.emulator.world import Ask, World


@dataclass(frozen=True, slots=True)
class Kind:
    table: str
    arn: str
    words: str


MODEL: Final = Kind("models", "model", "model")
ENDPOINT_CONFIG: Final = Kind("endpoint-configs", "endpoint-config", "endpoint configuration")
ENDPOINT: Final = Kind("endpoints", "endpoint", "endpoint")
PROCESSING_JOB: Final = Kind("processing-jobs", "processing-job", "processing job")
INFERENCE_COMPONENT: Final = Kind("inference-components", "inference-component", "inference component")
OPTIMIZATION_JOB: Final = Kind("optimization-jobs", "optimization-job", "optimization job")
KINDS: Final = (MODEL, ENDPOINT_CONFIG, ENDPOINT, PROCESSING_JOB, INFERENCE_COMPONENT, OPTIMIZATION_JOB)


def arn_of(world: World, region: str, kind: Kind, name: str) -> str:
    """SageMaker writes names in ARNs in lower case."""
    return world.arn("sagemaker", region, f"{kind.arn}/{name.lower()}")


def found(world: World, ask: Ask, kind: Kind, name: str) -> Row:
    row = world.table(kind.table, ask.region).get(name)
    if row is None:
        raise refused(f'Could not find {kind.words} "{arn_of(world, ask.region, kind, name)}".')
    return row


def require_new(world: World, ask: Ask, kind: Kind, name: str) -> str:
    """The ARN for a resource that is not there yet; names that differ in case only are the same."""
    arn = arn_of(world, ask.region, kind, name)
    if _is_taken(world, ask, kind, arn):
        raise refused(f'Cannot create already existing {kind.words} "{arn}".')
    return arn


def require_new_job(world: World, ask: Ask, kind: Kind, name: str) -> str:
    """As `require_new`; for jobs it is said otherwise."""
    arn = arn_of(world, ask.region, kind, name)
    if _is_taken(world, ask, kind, arn):
        raise ApiError(
            "ResourceInUse",
            "Job name must be unique within an AWS account and region, and a job with this name already "
            f"exists ({arn})",
        )
    return arn


def _is_taken(world: World, ask: Ask, kind: Kind, arn: str) -> bool:
    return any(row["arn"] == arn for _, row in world.table(kind.table, ask.region).rows())


def by_arn(world: World, arn: str) -> tuple[Kind, str, str, Row] | None:
    """The kind, region, name and record of whatever has this ARN."""
    for kind in KINDS:
        for region in world.store.regions(kind.table):
            for name, row in world.table(kind.table, region).rows():
                if row["arn"] == arn.lower():
                    return kind, region, name, row
    return None
