"""What an instance hour costs."""

from __future__ import annotations

from typing import Protocol

from lmi_deploy.core.observed import Price


class Prices(Protocol):
    def hourly(self, instance: str) -> Price | None:
        """On demand, for hosting, in our region: by AWS's price list, else by the packaged table. None: unknown."""
