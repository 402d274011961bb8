"""One file on its way, as a row of jobs: the schedule asks each file in turn for its next one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from lmi_deploy.core.facts import FileEntry
from lmi_deploy.core.weights import StoredFile
from lmi_deploy.transfer.slabs import Slab

Job = Callable[[Slab], None]
"""Does a piece of work with a buffer of its own; to keep that for longer it holds it."""


class Sending(Protocol):
    @property
    def entry(self) -> FileEntry: ...

    @property
    def done(self) -> StoredFile | None:
        """The file as it lies in the bucket; None before."""

    def next_job(self) -> Job | None:
        """Something to do now; None when all of it is handed out. A job that ends may bring new ones about."""

    def give_up(self) -> None:
        """A job failed: let go of every buffer, hand out nothing more."""
