"""The tagging API: SageMaker's resources and CloudWatch's alarms by their tags, as they were some seconds
ago (`--lag tags=`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from lmi_deploy.emulator.context import ApiRequest, EmulatorContext, Operation, tag_list
from lmi_deploy.emulator.record_store import Row, Store
from lmi_deploy.emulator.sagemaker.resources import KINDS
from lmi_deploy.emulator.services.alarms import TABLE as ALARMS
from lmi_deploy.emulator.wire.errors import ApiError

_TYPES: Final = {
    **{kind.table: ("sagemaker", f"sagemaker:{kind.arn}") for kind in KINDS},
    ALARMS: ("cloudwatch", "cloudwatch:alarm"),
}
"""By the table: the values of ResourceTypeFilters that include it."""
_Tags = Mapping[str, str] | None
"""None: there is no such resource."""


class TagIndex:
    def __init__(self, store: Store, now: Callable[[], float], lag: float) -> None:
        self._now = now
        self._lag = lag
        self._known: dict[tuple[str, str], dict[str, list[tuple[float, _Tags]]]] = {}
        """By table and region, then by ARN: since when which tags; no more of the past than is still shown."""
        for table, region, row in store.every_row():
            self.note(table, region, row, row, since=row.get("created", 0.0))
        store.watch(lambda table, region, before, after: self.note(table, region, before, after, since=now()))

    def note(self, table: str, region: str, before: Row | None, after: Row | None, *, since: float) -> None:
        """A record that was written (`after`) or dropped (None)."""
        row = after or before
        if table not in _TYPES or row is None:
            return
        arns = self._known.setdefault((table, region), {})
        changes = arns.setdefault(row["arn"], [])
        tags = dict(row["tags"]) if after is not None else None
        if not changes or changes[-1][1] != tags:
            changes.append((since, tags))
        self._forget(arns, row["arn"])

    def visible(self, table: str, region: str) -> Iterator[tuple[str, Mapping[str, str]]]:
        """ARNs with their tags, as the index has them by now."""
        arns = self._known.get((table, region), {})
        for arn in sorted(arns):
            self._forget(arns, arn)
            since, tags = arns[arn][0] if arn in arns else (0.0, None)
            if tags and since <= self._now() - self._lag:
                yield arn, tags

    def _forget(self, arns: dict[str, list[tuple[float, _Tags]]], arn: str) -> None:
        """Remove entries that are too old to be shown."""
        changes, horizon = arns[arn], self._now() - self._lag
        while len(changes) > 1 and changes[1][0] <= horizon:
            del changes[0]
        if changes[0][1] is None and len(changes) == 1 and changes[0][0] <= horizon:
            del arns[arn]


PAGE: Final = 50


def get_resources(context: EmulatorContext, request: ApiRequest) -> Mapping[str, Any]:
    params = request.params
    arns = params.get("ResourceARNList")
    found = [
        (arn, tags)
        for arn, tags in _tagged(context, request)
        if all(_fits(tags, requested) for requested in params.get("TagFilters", ()))
        and (arns is None or arn in arns)
    ]
    try:
        start = int(params.get("PaginationToken") or "0")
    except ValueError as exc:
        raise ApiError("InvalidParameterException", "Invalid pagination token") from exc
    stop = start + int(params.get("ResourcesPerPage", PAGE))
    return {
        "ResourceTagMappingList": [
            {"ResourceARN": arn, "Tags": tag_list({"tags": tags})} for arn, tags in found[start:stop]
        ],
        "PaginationToken": str(stop) if stop < len(found) else "",
    }


def _tagged(context: EmulatorContext, request: ApiRequest) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The tagged resources by the index, which may lag behind, of the requested types (`sagemaker`,
    `sagemaker:endpoint`).
    """
    requested = request.params.get("ResourceTypeFilters")
    for table, types in _TYPES.items():
        if requested and not set(types) & set(requested):
            continue
        yield from context.tags.visible(table, request.region)


def _fits(tags: Mapping[str, str], required: Mapping[str, Any]) -> bool:
    values = required.get("Values") or ()
    return required["Key"] in tags and (not values or tags[required["Key"]] in values)


OPERATIONS: Final[Mapping[str, Operation]] = {"GetResources": get_resources}
