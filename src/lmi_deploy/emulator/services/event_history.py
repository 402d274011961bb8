"""CloudTrail's event history: the changing requests of SageMaker, without a trail.

Sources: CloudTrail's API reference, LookupEvents (botocore's model: 90 days, the newest first, 50 a page, one
attribute a request), its user guide, "CloudTrail record contents" and "How CloudTrail works" (an event is there within
about five minutes), and SageMaker developer guide, "Log Amazon SageMaker API calls with CloudTrail".
The limit of two requests a second is not enforced, and refused requests are not recorded.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from lmi_deploy.emulator.context import ApiRequest, EmulatorContext, Operation
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.sagemaker.resources import page
from lmi_deploy.emulator.wire.errors import ApiError

TABLE: Final = "events"
LAG: Final = 300.0
"""Seconds until an event is found."""
KEPT: Final = 90 * 86_400.0
_READS: Final = ("Describe", "List", "Search", "Get")
_SOURCE: Final = "sagemaker.amazonaws.com"


def record(context: EmulatorContext, request: ApiRequest, *, caller: str, agent: str) -> None:
    """A request of SageMaker that was carried out; `agent`: its User-Agent."""
    if request.operation.startswith(_READS):
        return
    now, name = context.clock.now(), str(uuid.uuid4())
    kind = "Root" if caller.endswith(":root") else "AssumedRole" if ":assumed-role/" in caller else "IAMUser"
    event = {
        "eventVersion": "1.11",
        "userIdentity": {
            "type": kind,
            "arn": caller,
            "accountId": context.account,
            "accessKeyId": request.key,
        },
        "eventTime": f"{datetime.fromtimestamp(now, UTC):%Y-%m-%dT%H:%M:%SZ}",
        "eventSource": _SOURCE,
        "eventName": request.operation,
        "awsRegion": request.region,
        "userAgent": agent,
        "requestParameters": _small(request.params),
        "eventID": name,
        "readOnly": False,
    }
    row = {"created": now, "name": request.operation, "user": caller.rpartition("/")[2], "event": event}
    context.table(TABLE, request.region).put(name, row)


def lookup_events(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    now, table = context.clock.now(), context.table(TABLE, request.region)
    attributes = request.params.get("LookupAttributes") or ()
    if len(attributes) > 1:
        raise ApiError("InvalidLookupAttributesException", "You can only specify one lookup attribute.")
    for one in attributes:
        if one["AttributeKey"] not in _ATTRIBUTES:
            raise ApiError("InvalidLookupAttributesException", f"not served here: {one['AttributeKey']}")
    start = max(request.params.get("StartTime", 0.0), now - KEPT)
    end = min(request.params.get("EndTime", now), now - LAG)
    rows = [
        (name, row)
        for name, row in table.rows()
        if start <= row["created"] <= end
        and all(_ATTRIBUTES[one["AttributeKey"]](row) == one["AttributeValue"] for one in attributes)
    ]
    found, token = page(rows, {"MaxResults": 50, **request.params})
    return {"Events": [_event(row) for _, row in found], **({"NextToken": token} if token else {})}


_ATTRIBUTES: Final[Mapping[str, Callable[[Row], str]]] = {
    "EventName": lambda row: row["name"],
    "EventSource": lambda row: _SOURCE,
    "Username": lambda row: row["user"],
    "EventId": lambda row: row["event"]["eventID"],
    "AccessKeyId": lambda row: row["event"]["userIdentity"]["accessKeyId"],
}


def _event(row: Row) -> dict[str, Any]:
    event = row["event"]
    return {
        "EventId": event["eventID"],
        "EventName": row["name"],
        "ReadOnly": "false",
        "AccessKeyId": event["userIdentity"]["accessKeyId"],
        "EventTime": row["created"],
        "EventSource": _SOURCE,
        "Username": row["user"],
        "Resources": [],
        "CloudTrailEvent": json.dumps(event),
    }


def _small(value: Any) -> Any:
    """CloudTrail's names of parameters begin with a small letter."""
    if isinstance(value, Mapping):
        return {key[:1].lower() + key[1:]: _small(inner) for key, inner in value.items()}
    return [_small(inner) for inner in value] if isinstance(value, list) else value


OPERATIONS: Final[Mapping[str, Operation]] = {"LookupEvents": lookup_events}
