"""What endpoints measured of their requests. Metrics are some minutes late."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Protocol


class Metrics(Protocol):
    def used(self, endpoints: Collection[str], *, since: datetime, until: datetime) -> frozenset[str]:
        """Those of these endpoints that had a request between the two times, or that have one in their queue.

        CloudError if the service does not answer for all of them: an endpoint without data must not count as unused.
        """
