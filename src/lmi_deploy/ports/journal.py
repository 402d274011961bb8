"""The record of a deployment: intent before, outcome after."""

from __future__ import annotations

from typing import Protocol

from lmi_deploy.domain.plan import Action
from lmi_deploy.domain.record import AN_UP, DeploymentRef, Generation, Record, ServingChange


class Journal(Protocol):
    def begin(self, action: Action) -> None:
        """On disk before the action runs."""

    def complete(self, action: Action, outcome: str) -> None:
        """On disk before the next action runs."""

    def set_pending(self, generation: Generation) -> None:
        """This generation is pending, until it is settled."""

    def commit(self, generation: Generation, change: ServingChange = AN_UP) -> None:
        """This generation is now current, by this change; the intents end, except for created
        resources that belong to no generation.
        """

    def accept(self, server: str) -> None:
        """This generation met the objectives of a pipeline."""

    def restore(self, record: Record) -> None:
        """This rebuilt record, unless another command has written one by now."""


class Records(Protocol):
    """All records in one place."""

    def names(self) -> tuple[str, ...]:
        """Every deployment with a stored object."""

    def read(self, name: str) -> Record | None:
        """None if there is none, or it cannot be read."""

    def examine(self, name: str) -> tuple[Record | None, str]:
        """The record, and why it cannot be read; empty if it can, or there is none."""

    def journal(self, ref: DeploymentRef) -> Journal:
        """The writer of this deployment's record."""

    def remove(self, name: str) -> None:
        """Delete all its objects; the holder releases the lock."""
