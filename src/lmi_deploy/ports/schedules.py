"""One-time schedules that delete an endpoint when it expires, with no lmi running."""

from __future__ import annotations

from typing import Protocol

from lmi_deploy.domain.sagemaker.expiry import ObservedSchedule


class Schedules(Protocol):
    def deletion(self, endpoint: str) -> ObservedSchedule | None:
        """The schedule that deletes this endpoint; one of its name that does anything else is not ours."""

    def delete_at(self, endpoint: str, at: str, *, role: str) -> None:
        """Create or move the schedule. `at` is ISO 8601. It deletes itself after it has run.

        Refused if a schedule of this name is not ours; RoleNotAssumable while the service cannot assume the role.
        """

    def remove(self, endpoint: str) -> None:
        """Absent is no error."""
