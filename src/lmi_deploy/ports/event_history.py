"""What the account's own log of API calls knows of an endpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointCall:
    """A request that put an endpoint config into service, or changed its number of instances."""

    at: str
    """ISO 8601, UTC."""
    by: str
    """The caller's ARN."""
    is_ours: bool
    """Whether lmi sent it."""
    config: str = ""
    """Empty: only the number of instances was changed."""
    types: tuple[str, ...] = ()
    """The instance types of its first variant. Empty: the request that created the config is not in the log."""
    count: int = 0
    """Instances of its first variant; 0: unknown."""


class EventHistory(Protocol):
    def calls(self, endpoint: str) -> tuple[EndpointCall, ...]:
        """Those since it was created, or of the last 90 days, the oldest first; the last minutes may be missing.

        AccessError if the log may not be read: the right is optional.
        """
