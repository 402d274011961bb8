"""What every file of one transfer has in common: where from, where to, through which buffers."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from lmi_deploy.domain.crc32 import crc32, crc32_text
from lmi_deploy.domain.facts import FileEntry, ModelListing
from lmi_deploy.errors import TransferFailed
from lmi_deploy.ports.object_store import ObjectStore
from lmi_deploy.ports.source import Source
from lmi_deploy.weights.buffer_pool import Stopped
from lmi_deploy.weights.progress import Board

GO_ON = "run the same command again: it goes on from what the bucket has"


@dataclass(slots=True)
class Ends:
    listing: ModelListing
    source: Source
    store: ObjectStore
    prefix: str
    board: Board
    stop: threading.Event = field(default_factory=threading.Event)

    def key(self, entry: FileEntry) -> str:
        return self.prefix + entry.path

    def fill(self, entry: FileEntry, view: memoryview, start: int) -> str:
        """Bytes of one file into a buffer, and their CRC32; Stopped when somebody ended the transfer."""
        came, noted, crc = 0, False, 0
        for arrived in self.source.fill(self.listing, entry.path, view, start=start):
            if self.stop.is_set():
                raise Stopped
            # While what came last is in the processor's cache: later it takes twice the time.
            crc = crc32(view[came : arrived.come], crc)
            came = arrived.come
            if arrived.note or noted:
                self.board.say(entry.path, arrived.note)
                noted = bool(arrived.note)
        if came != len(view):
            raise TransferFailed(
                f"{entry.path}: {came} of {len(view)} bytes came from byte {start} on",
                hint=GO_ON,
            )
        return crc32_text(crc)
