"""The record of a deployment: intent before, outcome after."""

from __future__ import annotations

from typing import Protocol

from lmi_deploy.core.plan import Action
from lmi_deploy.core.record import Generation


class Journal(Protocol):
    def intend(self, action: Action) -> None:
        """On disk before the action runs."""

    def done(self, action: Action, outcome: str) -> None:
        """On disk before the next action runs."""

    def settle(self, generation: Generation) -> None:
        """This generation serves now; the intents are history."""
