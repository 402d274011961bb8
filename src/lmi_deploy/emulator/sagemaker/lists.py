"""Lists as SageMaker gives them: filtered, sorted, in pages."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.wire.errors import refused

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
    return kept[start:stop], _token(stop, requested) if stop < len(kept) else ""


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


def _token(start: int, requested: Mapping[str, Any]) -> str:
    return base64.b64encode(json.dumps([start, requested], sort_keys=True).encode()).decode()


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
