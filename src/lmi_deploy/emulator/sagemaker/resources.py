"""SageMaker's resources as records: their kinds and ARNs, and how they are found, created and listed."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lmi_deploy.emulator.context import ApiRequest, EmulatorContext, tags_of
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
    if all(row["arn"] != arn for _, row in context.table(kind.table, request.region).rows()):
        return arn
    if kind in (PROCESSING_JOB, OPTIMIZATION_JOB):
        raise ApiError(
            "ResourceInUse",
            "Job name must be unique within an AWS account and region, and a job with this name already "
            f"exists ({arn})",
        )
    raise refused(f'Cannot create already existing {kind.words} "{arn}".')


def by_arn(context: EmulatorContext, arn: str) -> tuple[Kind, str, str, Row] | None:
    """The kind, region, name and record of the resource with this ARN."""
    for kind in KINDS:
        for region in context.store.regions(kind.table):
            for name, row in context.table(kind.table, region).rows():
                if row["arn"] == arn.lower():
                    return kind, region, name, row
    return None


def new_row(context: EmulatorContext, request: ApiRequest, arn: str, **more: Any) -> Row:
    """The record of the resource in this request; refused if its tags are invalid."""
    now = context.clock.now()
    return {
        "arn": arn,
        "created": now,
        "modified": now,
        "tags": require_valid_tags(tags_of(request.params)),
        **more,
    }


def requested_settings(request: ApiRequest) -> Row:
    return {key: value for key, value in request.params.items() if key != "Tags"}


def require_valid_tags(tags: dict[str, str]) -> dict[str, str]:
    for key in tags:
        if key.lower().startswith("aws:"):
            raise refused("aws: prefixed tag key names are not allowed for external use.")
    return tags


def require_role(context: EmulatorContext, role: str) -> None:
    if not context.roles.trusts(role, "sagemaker.amazonaws.com"):
        raise refused(
            f"Could not assume role {role}. Please ensure that the role exists and allows principal "
            "'sagemaker.amazonaws.com' to assume the role."
        )


PAGE: Final = 10
_SORTS: Final[Mapping[str, Callable[[tuple[str, Row]], Any]]] = {
    "Name": lambda item: item[0],
    "CreationTime": lambda item: (item[1]["created"], item[0]),
    "Status": lambda item: (item[1].get("status", ""), item[0]),
}


def page(
    rows: Iterable[tuple[str, Row]], params: Mapping[str, Any], *, order: str = "Descending"
) -> tuple[list[tuple[str, Row]], str]:
    """One page of the requested list, and the token of the next one (empty: this is the last).

    `order` is the operation's default, by the documentation of SortOrder in the service model.
    """
    requested = {key: value for key, value in params.items() if key not in ("NextToken", "MaxResults")}
    kept = [(name, row) for name, row in rows if _matches(name, row, params)]
    kept.sort(key=_SORTS[params.get("SortBy", "CreationTime")])
    if params.get("SortOrder", order) == "Descending":
        kept.reverse()
    start = _start(params.get("NextToken"), requested)
    stop = start + int(params.get("MaxResults", PAGE))
    if stop >= len(kept):
        return kept[start:], ""
    token = json.dumps([stop, requested], sort_keys=True).encode()
    return kept[start:stop], base64.b64encode(token).decode()


def _matches(name: str, row: Row, params: Mapping[str, Any]) -> bool:
    # In milliseconds, as in responses: a client that filters by a time from a response means that exact moment.
    created, modified = round(row["created"], 3), round(row.get("modified") or row["created"], 3)
    bounds = (
        ("CreationTimeAfter", created, 1),
        ("CreationTimeBefore", created, -1),
        ("LastModifiedTimeAfter", modified, 1),
        ("LastModifiedTimeBefore", modified, -1),
    )
    return (
        params.get("NameContains", "").lower() in name.lower()
        and params.get("StatusEquals") in (None, row.get("status"))
        and all((moment - params[key]) * sign >= 0 for key, moment, sign in bounds if key in params)
    )


def _start(token: str | None, requested: Mapping[str, Any]) -> int:
    """A token is only valid for the request that it was returned for."""
    if token is None:
        return 0
    try:
        start, prompt = json.loads(base64.b64decode(token, validate=True))
    except (ValueError, binascii.Error, TypeError) as exc:
        raise refused("Invalid NextToken provided.") from exc
    if prompt != json.loads(json.dumps(requested)):
        raise refused("NextToken was given for a request with other parameters.")
    return int(start)
