"""The shared state of one transfer: source, destination, buffers."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from lmi_deploy.domain.crc32 import crc32, crc32_text
from lmi_deploy.domain.gathered_facts import FileEntry, ModelListing
from lmi_deploy.errors import TransferFailed
from lmi_deploy.ports.object_store import ObjectStore
from lmi_deploy.ports.source import Source
from lmi_deploy.weights.buffer_pool import PoolStopped
from lmi_deploy.weights.transfer_progress import TransferProgress

GO_ON = "run the same command again: it continues with what is missing in the bucket"


@dataclass(slots=True)
class TransferContext:
    listing: ModelListing
    source: Source
    store: ObjectStore
    prefix: str
    board: TransferProgress
    stop: threading.Event = field(default_factory=threading.Event)

    def key(self, entry: FileEntry) -> str:
        return self.prefix + entry.path

    def read_into(self, entry: FileEntry, view: memoryview, start: int) -> str:
        """Bytes of one file into a buffer, and their CRC32; PoolStopped when the transfer was stopped."""
        received, recorded, crc = 0, False, 0
        for bytes_read in self.source.read_into(self.listing, entry.path, view, start=start):
            if self.stop.is_set():
                raise PoolStopped
            # While the latest bytes are in the CPU cache: later it takes twice the time.
            crc = crc32(view[received : bytes_read.come], crc)
            received = bytes_read.come
            if bytes_read.note or recorded:
                self.board.note_file(entry.path, bytes_read.note)
                recorded = bool(bytes_read.note)
        if received != len(view):
            raise TransferFailed(
                f"{entry.path}: received {received} of {len(view)} bytes from byte {start} on",
                hint=GO_ON,
            )
        return crc32_text(crc)
