"""Simultaneous transfers of files: shown as events, summed up at the end."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from lmi_deploy.domain.events import Event, Line, Progress
from lmi_deploy.domain.number_text import counted, size_text
from lmi_deploy.domain.weights import StoredFile
from lmi_deploy.errors import Interrupted, LmiError
from lmi_deploy.errors.failed_files import file_failure, raise_failures
from lmi_deploy.ports.clock import Clock
from lmi_deploy.weights.buffer_pool import BufferPool
from lmi_deploy.weights.part_size import SMALL, part_size
from lmi_deploy.weights.transfer_context import GO_ON, TransferContext
from lmi_deploy.weights.transfer_schedule import Schedule
from lmi_deploy.weights.transfer_settings import TransferSettings
from lmi_deploy.weights.upload_task import UploadTask
from lmi_deploy.weights.upload_workers import TaskOutcome, UploadWorkers

REPORT_EVERY = 64 << 20
"""Files of at least so many bytes get a line of their own when they are done."""


@dataclass(slots=True)
class TransferRun:
    ends: TransferContext
    clock: Clock
    settings: TransferSettings
    key: str
    done: dict[str, StoredFile] = field(default_factory=dict)
    _failed: dict[str, LmiError] = field(default_factory=dict)

    def all(self, work: Sequence[UploadTask]) -> Generator[Event, None, None]:
        """Carry out every file's jobs. A failure of one file is reported at the end; a refusal stops all at once."""
        if not work:
            return
        buffers = self._buffers(work)
        pool = UploadWorkers(Schedule(work, lanes=self.settings.lanes), buffers, self.ends.stop)
        started = self.clock.monotonic()
        try:
            with closing(pool.run(buffers.count)) as outcomes:
                for outcome in outcomes:
                    if outcome is not None:
                        yield from self._note(outcome)
                    yield self._progress(self.clock.monotonic() - started)
        except KeyboardInterrupt:
            raise self._interrupted() from None
        raise_failures(
            self._failed,
            len(work),
            model_id=self.ends.listing.model_id,
            where=f" in {self.ends.store.bucket}",
            otherwise=GO_ON,
        )

    def _buffers(self, work: Sequence[UploadTask]) -> BufferPool:
        largest = max(task.entry.size for task in work)
        size = (
            max(1, largest) if largest < SMALL else min(largest, max(part_size(s.entry.size) for s in work))
        )
        return BufferPool(self.settings.buffers(size), size)

    def _note(self, outcome: TaskOutcome) -> Generator[Event]:
        entry, raised = outcome.task.entry, outcome.raised
        match raised:
            case None:
                if entry.path not in self.done and outcome.task.done is not None:
                    self.done[entry.path] = outcome.task.done
                    if entry.size >= REPORT_EVERY:
                        yield Line(key=self.key, text=f"{entry.path}: {size_text(entry.size)}, verified")
            case _:
                self._failed.setdefault(entry.path, file_failure(raised))

    def _progress(self, seconds: float) -> Progress:
        progress = self.ends.board
        rate = f"{size_text(progress.sent / seconds)}/s" if progress.sent and seconds > 0 else ""
        retries = counted(progress.retries, "retry", "retries") if progress.retries else ""
        note = ", ".join(text for text in (progress.note, rate, retries) if text)
        return Progress(key=self.key, done=progress.safe, total=progress.total, unit="bytes", note=note)

    def _interrupted(self) -> Interrupted:
        progress = self.ends.board
        return Interrupted(
            f"interrupted: {size_text(progress.safe)} of {size_text(progress.total)} are in "
            f"{self.ends.store.bucket}, including parts of files; the weights stay incomplete until a push finishes",
            hint=f"{GO_ON}; or `lmi gc --bucket {self.ends.store.bucket} --older-than 0` deletes unfinished uploads",
        )
