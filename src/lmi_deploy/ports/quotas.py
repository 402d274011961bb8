"""The account's quotas, and the instance types that the region offers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceQuota:
    name: str
    code: str
    value: float


class Quotas(Protocol):
    def endpoint_instances(self, instance: str) -> ServiceQuota | None:
        """The quota `<instance> for endpoint usage`; None if the region has none, so does not offer it.

        AccessError if it may not be read.
        """

    def processing_instances(self, instance: str) -> ServiceQuota | None:
        """The same for `<instance> for processing job usage`."""
