"""The number of workers: few, and more while the CPUs wait for the network."""

import threading
from contextlib import closing

import pytest

from lmi_deploy.domain.gathered_facts import FileEntry
from lmi_deploy.domain.weights import StoredFile
from lmi_deploy.weights.buffer_pool import Buffer, BufferPool
from lmi_deploy.weights.transfer_schedule import Schedule
from lmi_deploy.weights.upload_task import Job
from lmi_deploy.weights.upload_workers import UploadWorkers

MOST = 8


class Rendezvous:
    """A file whose every job waits for the others: it completes only when `parties` work at the same time."""

    def __init__(self, parties: int) -> None:
        self.entry = FileEntry(path="x", size=1, oid="0" * 64, kind="sha256")
        self.done: StoredFile | None = None
        self.met = threading.Barrier(parties)
        self.at_once = self.most = 0
        self._left = 3 * parties
        self._lock = threading.Lock()

    def next_job(self) -> Job | None:
        self._left -= 1
        return self._work if self._left >= 0 else None

    def give_up(self) -> None:
        self.met.abort()

    def _work(self, buffer: Buffer) -> None:
        with self._lock:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
        self.met.wait(20)
        with self._lock:
            self.at_once -= 1


def worked(parties: int, *, idle: float, first: int) -> int:
    """The highest number of concurrent jobs."""
    rendezvous = Rendezvous(parties)
    pool = UploadWorkers(
        Schedule([rendezvous], lanes=1),
        BufferPool(MOST, 16),
        threading.Event(),
        idleness=lambda: idle,
        first=first,
    )
    with closing(pool.run(MOST)) as outcomes:
        assert [outcome for outcome in outcomes if outcome is not None] == []
    return rendezvous.most


def test_workers_are_added_up_to_the_maximum_while_the_cpu_is_idle() -> None:
    assert worked(MOST, idle=0.9, first=2) == MOST


@pytest.mark.parametrize("first", [2, 3])
def test_workers_are_not_added_while_the_cpu_is_busy(first: int) -> None:
    assert worked(first, idle=0.1, first=first) == first


def test_workers_never_exceed_the_number_of_buffers() -> None:
    assert worked(MOST, idle=0.9, first=50) == MOST
