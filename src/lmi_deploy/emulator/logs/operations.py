"""CloudWatch Logs' operations that a deployer uses."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, Final

from lmi_deploy.emulator.context import ApiRequest, Operation
from lmi_deploy.emulator.logs.groups import LogGroup, LogGroups, LogLine, LogStream
from lmi_deploy.emulator.wire.errors import ApiError

LogOperation = Callable[[LogGroups, ApiRequest], Mapping[str, Any] | None]
"""Of the groups of the request's region."""
MAX_EVENTS: Final = 10_000


def missing(what: str) -> ApiError:
    return ApiError("ResourceNotFoundException", f"The specified {what} does not exist.")


def describe_log_groups(logs: LogGroups, request: ApiRequest) -> Mapping[str, Any]:
    prefix, pattern = (
        request.params.get("logGroupNamePrefix", ""),
        request.params.get("logGroupNamePattern", ""),
    )
    names = sorted(
        name for name in logs.groups if name.startswith(prefix) and pattern.lower() in name.lower()
    )
    shown, token = _paged(names, request.params, default=50)
    return {"logGroups": [_group(logs, name) for name in shown], "nextToken": token}


def describe_log_streams(logs: LogGroups, request: ApiRequest) -> Mapping[str, Any]:
    name = _name(request)
    group = _find_group(logs, name)
    prefix = request.params.get("logStreamNamePrefix", "")
    found = [item for item in group.streams.items() if item[0].startswith(prefix)]
    by_time = request.params.get("orderBy") == "LastEventTime"
    if by_time and prefix:
        raise ApiError(
            "InvalidParameterException", "Cannot order by LastEventTime with a logStreamNamePrefix."
        )
    if by_time:
        found.sort(key=lambda item: (item[1].lines[-1].at if item[1].lines else item[1].created, item[0]))
    else:
        found.sort(key=lambda item: item[0])
    if request.params.get("descending"):
        found.reverse()
    shown, token = _paged(found, request.params, default=50)
    return {"logStreams": [_stream(logs, name, *item) for item in shown], "nextToken": token}


def get_log_events(logs: LogGroups, request: ApiRequest) -> Mapping[str, Any]:
    """Pages in both directions; the end is reached when the response repeats the given token."""
    stream = _find_group(logs, _name(request)).streams.get(request.params["logStreamName"])
    if stream is None:
        raise missing("log stream")
    lines = [line for line in stream.lines if _within(line, request.params)]
    limit = int(request.params.get("limit", MAX_EVENTS))
    start, stop = _window(request.params, len(lines), limit)
    return {
        "events": [
            {"timestamp": line.at, "message": line.text, "ingestionTime": line.ingested}
            for line in lines[start:stop]
        ],
        "nextForwardToken": f"f/{stop:056d}/s",
        "nextBackwardToken": f"b/{start:056d}/s",
    }


def filter_log_events(logs: LogGroups, request: ApiRequest) -> Mapping[str, Any]:
    """Every stream's lines by time; of the filter patterns only terms, quoted or not, all of which must match."""
    group = _find_group(logs, _name(request))
    names, prefix = request.params.get("logStreamNames"), request.params.get("logStreamNamePrefix", "")
    terms = [term.strip('"') for term in request.params.get("filterPattern", "").split()]
    found = [
        (line.at, name, number, line)
        for name, stream in group.streams.items()
        if name.startswith(prefix) and (names is None or name in names)
        for number, line in enumerate(stream.lines)
        if _within(line, request.params) and all(term in line.text for term in terms)
    ]
    found.sort(key=lambda item: item[:3])
    shown, token = _paged(found, request.params, default=MAX_EVENTS)
    return {
        "events": [
            {
                "logStreamName": name,
                "timestamp": at,
                "message": line.text,
                "ingestionTime": line.ingested,
                "eventId": f"{at:014d}{number:042d}",
            }
            for at, name, number, line in shown
        ],
        "searchedLogStreams": [],
        "nextToken": token,
    }


def create_log_group(logs: LogGroups, request: ApiRequest) -> None:
    if request.params["logGroupName"] in logs.groups:
        raise ApiError("ResourceAlreadyExistsException", "The specified log group already exists")
    logs.make_group(request.params["logGroupName"]).tags.update(request.params.get("tags") or {})
    logs.save(request.params["logGroupName"])


def delete_log_group(logs: LogGroups, request: ApiRequest) -> None:
    if not logs.drop_group(request.params["logGroupName"]):
        raise missing("log group")


def create_log_stream(logs: LogGroups, request: ApiRequest) -> None:
    if request.params["logStreamName"] in _find_group(logs, request.params["logGroupName"]).streams:
        raise ApiError("ResourceAlreadyExistsException", "The specified log stream already exists")
    logs.make_stream(request.params["logGroupName"], request.params["logStreamName"])


def delete_log_stream(logs: LogGroups, request: ApiRequest) -> None:
    _find_group(logs, request.params["logGroupName"])
    if not logs.drop_stream(request.params["logGroupName"], request.params["logStreamName"]):
        raise missing("log stream")


def put_log_events(logs: LogGroups, request: ApiRequest) -> Mapping[str, Any]:
    group, stream = request.params["logGroupName"], request.params["logStreamName"]
    if stream not in _find_group(logs, group).streams:
        raise missing("log stream")
    logs.append(group, stream, [(item["timestamp"], item["message"]) for item in request.params["logEvents"]])
    return {"nextSequenceToken": "0" * 56}


def put_retention_policy(logs: LogGroups, request: ApiRequest) -> None:
    _find_group(logs, request.params["logGroupName"]).retention = request.params["retentionInDays"]
    logs.save(request.params["logGroupName"])


def delete_retention_policy(logs: LogGroups, request: ApiRequest) -> None:
    _find_group(logs, request.params["logGroupName"]).retention = None
    logs.save(request.params["logGroupName"])


def list_tags(logs: LogGroups, request: ApiRequest) -> Mapping[str, Any]:
    return {"tags": _find_group(logs, _tagged(request)).tags}


def tag(logs: LogGroups, request: ApiRequest) -> None:
    _find_group(logs, _tagged(request)).tags.update(request.params["tags"])
    logs.save(_tagged(request))


def untag(logs: LogGroups, request: ApiRequest) -> None:
    for key in request.params["tagKeys"]:
        _find_group(logs, _tagged(request)).tags.pop(key, None)
    logs.save(_tagged(request))


_OPERATIONS: Final[Mapping[str, LogOperation]] = {
    "DescribeLogGroups": describe_log_groups,
    "DescribeLogStreams": describe_log_streams,
    "GetLogEvents": get_log_events,
    "FilterLogEvents": filter_log_events,
    "CreateLogGroup": create_log_group,
    "DeleteLogGroup": delete_log_group,
    "CreateLogStream": create_log_stream,
    "DeleteLogStream": delete_log_stream,
    "PutLogEvents": put_log_events,
    "PutRetentionPolicy": put_retention_policy,
    "DeleteRetentionPolicy": delete_retention_policy,
    "ListTagsForResource": list_tags,
    "TagResource": tag,
    "UntagResource": untag,
}


def _of_region(operation: LogOperation) -> Operation:
    return lambda context, request: operation(context.logs(request.region), request)


OPERATIONS: Final = {name: _of_region(operation) for name, operation in _OPERATIONS.items()}


def _name(request: ApiRequest) -> str:
    """By name or by ARN, one of them."""
    name = request.params.get("logGroupName") or request.params.get("logGroupIdentifier", "")
    if not name:
        raise ApiError("InvalidParameterException", "One of logGroupName and logGroupIdentifier is required.")
    return str(name).split(":log-group:")[-1].removesuffix(":*")


def _tagged(request: ApiRequest) -> str:
    return str(request.params["resourceArn"]).split(":log-group:")[-1].removesuffix(":*")


def _find_group(logs: LogGroups, name: str) -> LogGroup:
    if name not in logs.groups:
        raise missing("log group")
    return logs.groups[name]


def _within(line: LogLine, params: Mapping[str, Any]) -> bool:
    first, end = int(params.get("startTime", 0)), int(params.get("endTime", line.at + 1))
    return first <= line.at < end


def _window(params: Mapping[str, Any], count: int, limit: int) -> tuple[int, int]:
    token = params.get("nextToken")
    if token is None:
        return (0, min(limit, count)) if params.get("startFromHead") else (max(0, count - limit), count)
    try:
        direction, place, _ = token.split("/")
        at = int(place)
    except ValueError as exc:
        raise ApiError("InvalidParameterException", "The specified nextToken is invalid.") from exc
    return (
        (min(at, count), min(at + limit, count)) if direction == "f" else (max(0, at - limit), min(at, count))
    )


def _paged(items: list[Any], params: Mapping[str, Any], *, default: int) -> tuple[list[Any], str | None]:
    try:
        start = int(base64.b64decode(params.get("nextToken", ""), validate=True) or 0)
    except (ValueError, binascii.Error) as exc:
        raise ApiError("InvalidParameterException", "The specified nextToken is invalid.") from exc
    stop = start + int(params.get("limit", default))
    return items[start:stop], base64.b64encode(str(stop).encode()).decode() if stop < len(items) else None


def _group(logs: LogGroups, name: str) -> dict[str, Any]:
    group = logs.groups[name]
    return {
        "logGroupName": name,
        "arn": f"{logs.arn}:log-group:{name}:*",
        "logGroupArn": f"{logs.arn}:log-group:{name}",
        "creationTime": group.created,
        "retentionInDays": group.retention,
        "storedBytes": sum(len(line.text) for stream in group.streams.values() for line in stream.lines),
        "metricFilterCount": 0,
    }


def _stream(logs: LogGroups, group: str, name: str, stream: LogStream) -> dict[str, Any]:
    description: dict[str, Any] = {
        "logStreamName": name,
        "creationTime": stream.created,
        "arn": f"{logs.arn}:log-group:{group}:log-stream:{name}",
        "storedBytes": 0,
        "uploadSequenceToken": "0" * 56,
    }
    if stream.lines:
        description["firstEventTimestamp"] = stream.lines[0].at
        description["lastEventTimestamp"] = stream.lines[-1].at
        description["lastIngestionTime"] = stream.lines[-1].ingested
    return description
