"""The tagging API's view of SageMaker's resources: their tags as they were some seconds ago.

It lags behind changes and deletions alike: AWS users find new resources missing and deleted ones listed, for more
than 20 minutes (https://github.com/aws/aws-cli/issues/4173) and more than an hour
(https://github.com/boto/boto3/issues/3341).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from lmi_deploy.emulator.record_store import Row, Store
from lmi_deploy.emulator.sagemaker.naming import KINDS

_TABLES: Final = frozenset(kind.table for kind in KINDS)
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
        if table not in _TABLES or row is None:
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
