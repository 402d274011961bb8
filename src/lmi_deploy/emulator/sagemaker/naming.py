"""The kinds of SageMaker's resources: their tables, ARNs and the words of their errors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lmi_deploy.emulator.context import ApiRequest, EmulatorContext
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.wire.errors import ApiError, refused


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
_EVENTUALLY_CONSISTENT: Final = (MODEL, ENDPOINT_CONFIG)
KINDS: Final = (MODEL, ENDPOINT_CONFIG, ENDPOINT, PROCESSING_JOB, INFERENCE_COMPONENT, OPTIMIZATION_JOB)


def arn_of(context: EmulatorContext, region: str, kind: Kind, name: str) -> str:
    """SageMaker writes names in ARNs in lower case."""
    return context.arn("sagemaker", region, f"{kind.arn}/{name.lower()}")


def found(context: EmulatorContext, request: ApiRequest, kind: Kind, name: str) -> Row:
    """The record, as SageMaker's reads see it: a new one may not be visible yet."""
    row = context.table(kind.table, request.region).get(name)
    if row is None or not is_visible(context, kind, row):
        raise absent(context, request, kind, name)
    return row


def drop(context: EmulatorContext, request: ApiRequest, kind: Kind, name: str) -> None:
    """A write: it sees every record, like one that creates."""
    if context.table(kind.table, request.region).drop(name) is None:
        raise absent(context, request, kind, name)


def visible_rows(context: EmulatorContext, request: ApiRequest, kind: Kind) -> Iterator[tuple[str, Row]]:
    """The records that a list selects from."""
    rows = context.table(kind.table, request.region).rows()
    yield from ((name, row) for name, row in rows if is_visible(context, kind, row))


def is_visible(context: EmulatorContext, kind: Kind, row: Row) -> bool:
    """Whether reads already find it (`--lag reads=`).

    "If the dependent entities are not yet in DynamoDB, this causes a validation error. If you repeat your read
    request after a short time, the response should return the latest data." (API reference, CreateEndpoint). Other
    kinds do not lag: AWS's own waiters (botocore's `EndpointInService`, `ProcessingJobCompletedOrStopped`) treat an
    endpoint or a job that is not found right after its creation as a failure.
    """
    return kind not in _EVENTUALLY_CONSISTENT or context.clock.now() >= row["created"] + context.lag.reads


def absent(context: EmulatorContext, request: ApiRequest, kind: Kind, name: str) -> ApiError:
    return refused(f'Could not find {kind.words} "{arn_of(context, request.region, kind, name)}".')


def require_new(context: EmulatorContext, request: ApiRequest, kind: Kind, name: str) -> str:
    """The ARN for a resource that does not exist yet; names that differ only in case are equal."""
    arn = arn_of(context, request.region, kind, name)
    if _is_taken(context, request, kind, arn):
        raise refused(f'Cannot create already existing {kind.words} "{arn}".')
    return arn


def require_new_job(context: EmulatorContext, request: ApiRequest, kind: Kind, name: str) -> str:
    """As `require_new`; jobs have another message."""
    arn = arn_of(context, request.region, kind, name)
    if _is_taken(context, request, kind, arn):
        raise ApiError(
            "ResourceInUse",
            "Job name must be unique within an AWS account and region, and a job with this name already "
            f"exists ({arn})",
        )
    return arn


def _is_taken(context: EmulatorContext, request: ApiRequest, kind: Kind, arn: str) -> bool:
    return any(row["arn"] == arn for _, row in context.table(kind.table, request.region).rows())


def by_arn(context: EmulatorContext, arn: str) -> tuple[Kind, str, str, Row] | None:
    """The kind, region, name and record of the resource with this ARN."""
    for kind in KINDS:
        for region in context.store.regions(kind.table):
            for name, row in context.table(kind.table, region).rows():
                if row["arn"] == arn.lower():
                    return kind, region, name, row
    return None
