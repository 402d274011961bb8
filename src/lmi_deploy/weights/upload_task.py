"""The transfer of one file as a series of jobs: the scheduler asks each file in turn for its next one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from lmi_deploy.domain.gathered_facts import FileEntry
from lmi_deploy.domain.weights import StoredFile
from lmi_deploy.weights.buffer_pool import Buffer

Job = Callable[[Buffer], None]
"""Do a piece of work with a buffer; to use the buffer after the job's end, hold it."""


class UploadTask(Protocol):
    @property
    def entry(self) -> FileEntry: ...

    @property
    def done(self) -> StoredFile | None:
        """The file as it is in the bucket; None before it is complete."""

    def next_job(self) -> Job | None:
        """A job to run now; None if all are handed out. A finished job may create new ones."""

    def give_up(self) -> None:
        """A job failed: release every buffer, return no more jobs."""


class SingleJobTask(ABC):
    """A file that one job provides."""

    def __init__(self, entry: FileEntry) -> None:
        self.entry = entry
        self.done: StoredFile | None = None
        self._left = True

    def next_job(self) -> Job | None:
        job = self.run if self._left else None
        self._left = False
        return job

    def give_up(self) -> None:
        self._left = False

    @abstractmethod
    def run(self, buffer: Buffer) -> None:
        """Sets `done`."""


class WithoutSending(ABC):
    """A file that `find` may provide in another way, tried once; if it yields None, `otherwise` sends the file."""

    def __init__(self, otherwise: UploadTask) -> None:
        self.otherwise = otherwise
        self._file: StoredFile | None = None
        self._handed_out = False
        self._not_found = False

    @property
    def entry(self) -> FileEntry:
        return self.otherwise.entry

    @property
    def done(self) -> StoredFile | None:
        return self._file or self.otherwise.done

    def next_job(self) -> Job | None:
        if not self._handed_out:
            self._handed_out = True
            return self._try
        return self.otherwise.next_job() if self._not_found else None

    def give_up(self) -> None:
        self.otherwise.give_up()

    @abstractmethod
    def find(self) -> StoredFile | None: ...

    def _try(self, buffer: Buffer) -> None:
        self._file = self.find()
        self._not_found = self._file is None
