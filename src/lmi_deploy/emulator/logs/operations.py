"""CloudWatch Logs' calls, as far as a deployer makes them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, Final

from lmi_deploy.emulator.context import Ask
from lmi_deploy.emulator.logs.groups import Group, LogGroups, LogLine, Stream
from lmi_deploy.emulator.wire.errors import ApiError

Call = Callable[[LogGroups, Ask, str], Mapping[str, Any] | None]
MAX_EVENTS: Final = 10_000


def missing(what: str) -> ApiError:
    return ApiError("ResourceNotFoundException", f"The specified {what} does not exist.")


def describe_log_groups(logs: LogGroups, ask: Ask, arn: str) -> Mapping[str, Any]:
    prefix, pattern = ask.params.get("logGroupNamePrefix", ""), ask.params.get("logGroupNamePattern", "")
    names = sorted(
        name for name in logs.groups if name.startswith(prefix) and pattern.lower() in name.lower()
    )
    shown, token = _paged(names, ask.params, default=50)
    return {"logGroups": [_group(arn, name, logs.groups[name]) for name in shown], "nextToken": token}


def describe_log_streams(logs: LogGroups, ask: Ask, arn: str) -> Mapping[str, Any]:
    name = _name(ask)
    group = _held(logs, name)
    prefix = ask.params.get("logStreamNamePrefix", "")
    found = [item for item in group.streams.items() if item[0].startswith(prefix)]
    by_time = ask.params.get("orderBy") == "LastEventTime"
    if by_time and prefix:
        raise ApiError(
            "InvalidParameterException", "Cannot order by LastEventTime with a logStreamNamePrefix."
        )
    found.sort(key=(lambda item: (_last(item[1]), item[0])) if by_time else (lambda item: item[0]))
    if ask.params.get("descending"):
        found.reverse()
    shown, token = _paged(found, ask.params, default=50)
    return {"logStreams": [_stream(arn, name, *item) for item in shown], "nextToken": token}


def get_log_events(logs: LogGroups, ask: Ask, arn: str) -> Mapping[str, Any]:
    """Pages in both directions; the end is reached when the token given comes back."""
    stream = _held(logs, _name(ask)).streams.get(ask.params["logStreamName"])
    if stream is None:
        raise missing("log stream")
    lines = [line for line in stream.lines if _within(line, ask.params)]
    limit = int(ask.params.get("limit", MAX_EVENTS))
    start, stop = _window(ask.params, len(lines), limit)
    return {
        "events": [
            {"timestamp": line.at, "message": line.text, "ingestionTime": line.taken}
            for line in lines[start:stop]
        ],
        "nextForwardToken": f"f/{stop:056d}/s",
        "nextBackwardToken": f"b/{start:056d}/s",
    }


def filter_log_events(logs: LogGroups, ask: Ask, arn: str) -> Mapping[str, Any]:
    """Every stream's lines by time; of the filter patterns, terms that must all be there, quoted or not."""
    group = _held(logs, _name(ask))
    names, prefix = ask.params.get("logStreamNames"), ask.params.get("logStreamNamePrefix", "")
    terms = [term.strip('"') for term in ask.params.get("filterPattern", "").split()]
    found = [
        (line.at, name, number, line)
        for name, stream in group.streams.items()
        if name.startswith(prefix) and (names is None or name in names)
        for number, line in enumerate(stream.lines)
        if _within(line, ask.params) and all(term in line.text for term in terms)
    ]
    found.sort(key=lambda item: item[:3])
    shown, token = _paged(found, ask.params, default=MAX_EVENTS)
    return {
        "events": [
            {
                "logStreamName": name,
                "timestamp": at,
                "message": line.text,
                "ingestionTime": line.taken,
                "eventId": f"{at:014d}{number:042d}",
            }
            for at, name, number, line in shown
        ],
        "searchedLogStreams": [],
        "nextToken": token,
    }


def create_log_group(logs: LogGroups, ask: Ask, arn: str) -> None:
    if ask.params["logGroupName"] in logs.groups:
        raise ApiError("ResourceAlreadyExistsException", "The specified log group already exists")
    logs.make_group(ask.params["logGroupName"]).tags.update(ask.params.get("tags") or {})
    logs.keep(ask.params["logGroupName"])


def delete_log_group(logs: LogGroups, ask: Ask, arn: str) -> None:
    if not logs.drop_group(ask.params["logGroupName"]):
        raise missing("log group")


def create_log_stream(logs: LogGroups, ask: Ask, arn: str) -> None:
    if ask.params["logStreamName"] in _held(logs, ask.params["logGroupName"]).streams:
        raise ApiError("ResourceAlreadyExistsException", "The specified log stream already exists")
    logs.make_stream(ask.params["logGroupName"], ask.params["logStreamName"])


def delete_log_stream(logs: LogGroups, ask: Ask, arn: str) -> None:
    _held(logs, ask.params["logGroupName"])
    if not logs.drop_stream(ask.params["logGroupName"], ask.params["logStreamName"]):
        raise missing("log stream")


def put_log_events(logs: LogGroups, ask: Ask, arn: str) -> Mapping[str, Any]:
    group, stream = ask.params["logGroupName"], ask.params["logStreamName"]
    if stream not in _held(logs, group).streams:
        raise missing("log stream")
    logs.append(group, stream, [(item["timestamp"], item["message"]) for item in ask.params["logEvents"]])
    return {"nextSequenceToken": "0" * 56}


def put_retention_policy(logs: LogGroups, ask: Ask, arn: str) -> None:
    _held(logs, ask.params["logGroupName"]).retention = ask.params["retentionInDays"]
    logs.keep(ask.params["logGroupName"])


def delete_retention_policy(logs: LogGroups, ask: Ask, arn: str) -> None:
    _held(logs, ask.params["logGroupName"]).retention = None
    logs.keep(ask.params["logGroupName"])


def list_tags(logs: LogGroups, ask: Ask, arn: str) -> Mapping[str, Any]:
    return {"tags": _held(logs, _tagged(ask)).tags}


def tag(logs: LogGroups, ask: Ask, arn: str) -> None:
    _held(logs, _tagged(ask)).tags.update(ask.params["tags"])
    logs.keep(_tagged(ask))


def untag(logs: LogGroups, ask: Ask, arn: str) -> None:
    for key in ask.params["tagKeys"]:
        _held(logs, _tagged(ask)).tags.pop(key, None)
    logs.keep(_tagged(ask))


OPERATIONS: Final[Mapping[str, Call]] = {
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


def _name(ask: Ask) -> str:
    """By name or by ARN, one of them."""
    name = ask.params.get("logGroupName") or ask.params.get("logGroupIdentifier", "")
    if not name:
        raise ApiError("InvalidParameterException", "One of logGroupName and logGroupIdentifier is required.")
    return str(name).split(":log-group:")[-1].removesuffix(":*")


def _tagged(ask: Ask) -> str:
    return str(ask.params["resourceArn"]).split(":log-group:")[-1].removesuffix(":*")


def _held(logs: LogGroups, name: str) -> Group:
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


def _last(stream: Stream) -> int:
    return stream.lines[-1].at if stream.lines else stream.created


def _group(arn: str, name: str, group: Group) -> dict[str, Any]:
    return {
        "logGroupName": name,
        "arn": f"{arn}:log-group:{name}:*",
        "logGroupArn": f"{arn}:log-group:{name}",
        "creationTime": group.created,
        "retentionInDays": group.retention,
        "storedBytes": sum(len(line.text) for stream in group.streams.values() for line in stream.lines),
        "metricFilterCount": 0,
    }


def _stream(arn: str, group: str, name: str, stream: Stream) -> dict[str, Any]:
    told: dict[str, Any] = {
        "logStreamName": name,
        "creationTime": stream.created,
        "arn": f"{arn}:log-group:{group}:log-stream:{name}",
        "storedBytes": 0,
        "uploadSequenceToken": "0" * 56,
    }
    if stream.lines:
        told["firstEventTimestamp"] = stream.lines[0].at
        told["lastEventTimestamp"] = stream.lines[-1].at
        told["lastIngestionTime"] = stream.lines[-1].taken
    return told
