"""Files on their way at once: seen as events, summed up at the end."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from lmi_deploy.domain.events import Event, Line, Progress
from lmi_deploy.domain.weights import StoredFile
from lmi_deploy.errors import (
    AccessError,
    IntegrityError,
    Interrupted,
    LmiError,
    LockLost,
    NotFound,
    TransferFailed,
)
from lmi_deploy.ports.clock import Clock
from lmi_deploy.weights.buffer_pool import Slabs
from lmi_deploy.weights.context import GO_ON, Ends
from lmi_deploy.weights.part_size import SMALL, part_size
from lmi_deploy.weights.schedule import Schedule
from lmi_deploy.weights.settings import TransferSettings
from lmi_deploy.weights.upload_task import Sending
from lmi_deploy.weights.worker_pool import Crew, Outcome

TOLD = 64 << 20
"""Files of at least so many bytes get a line of their own when they are done."""


@dataclass(slots=True)
class Run:
    ends: Ends
    clock: Clock
    settings: TransferSettings
    key: str
    done: dict[str, StoredFile] = field(default_factory=dict)
    _failed: dict[str, LmiError] = field(default_factory=dict)

    def all(self, work: Sequence[Sending]) -> Generator[Event, None, None]:
        """Carry out every file's jobs. One file's failure is kept for the end; a refusal ends all at once."""
        if not work:
            return
        slabs = self._slabs(work)
        crew = Crew(Schedule(work, lanes=self.settings.lanes), slabs, self.ends.stop)
        begun = self.clock.monotonic()
        try:
            with closing(crew.run(slabs.count)) as outcomes:
                for outcome in outcomes:
                    if outcome is not None:
                        yield from self._note(outcome)
                    yield self._progress(self.clock.monotonic() - begun)
        except KeyboardInterrupt:
            raise self._interrupted() from None
        self._sum_up(len(work))

    def _slabs(self, work: Sequence[Sending]) -> Slabs:
        largest = max(sending.entry.size for sending in work)
        size = (
            max(1, largest) if largest < SMALL else min(largest, max(part_size(s.entry.size) for s in work))
        )
        return Slabs(self.settings.slabs(size), size)

    def _note(self, outcome: Outcome) -> Generator[Event]:
        entry, raised = outcome.sending.entry, outcome.raised
        match raised:
            case None:
                if entry.path not in self.done and outcome.sending.done is not None:
                    self.done[entry.path] = outcome.sending.done
                    if entry.size >= TOLD:
                        yield Line(key=self.key, text=f"{entry.path}: {_bytes(entry.size)}, verified")
            case AccessError() | LockLost() | NotFound():
                raise raised
            case LmiError():
                self._failed.setdefault(entry.path, raised)
            case _:
                raise raised

    def _progress(self, seconds: float) -> Progress:
        board = self.ends.board
        rate = f"{board.sent / seconds / 1e6:.0f} MB/s" if board.sent and seconds > 0 else ""
        retries = f"{board.retries} retr{'y' if board.retries == 1 else 'ies'}" if board.retries else ""
        note = ", ".join(text for text in (board.note, rate, retries) if text)
        return Progress(key=self.key, done=board.safe, total=board.total, unit="bytes", note=note)

    def _interrupted(self) -> Interrupted:
        board = self.ends.board
        return Interrupted(
            f"interrupted: {_bytes(board.safe)} of {_bytes(board.total)} are in {self.ends.store.bucket}, parts of"
            " files among them; nothing of it can be seen as weights yet",
            hint=f"{GO_ON}; or `lmi gc --bucket {self.ends.store.bucket} --older-than 0` gives up what is unfinished",
        )

    def _sum_up(self, count: int) -> None:
        if not self._failed:
            return
        told = [error.message for error in self._failed.values()]
        for number, error in enumerate(self._failed.values()):
            if isinstance(error, IntegrityError):
                others = told[:number] + told[number + 1 :]
                raise IntegrityError(error.message, hint=error.hint, details=others) from error
        first = next(iter(self._failed.values()))
        raise TransferFailed(
            f"{self.ends.listing.model_id}: {len(told)} of {count} files did not arrive, {told[0]}",
            hint=f"{first.hint or GO_ON}; {len(self.done)} files are whole in {self.ends.store.bucket} and kept",
            details=told[1:],
        ) from first


def _bytes(count: int) -> str:
    for power, unit in ((4, "TB"), (3, "GB"), (2, "MB"), (1, "kB")):
        if count >= 1000**power:
            return f"{count / 1000**power:.1f} {unit}"
    return f"{count} bytes"
