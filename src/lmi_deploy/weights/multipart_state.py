"""One reading of a large file: its parts come in any order, and are hashed in their own."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from lmi_deploy.domain.crc32 import crc32_joined
from lmi_deploy.domain.facts import FileEntry
from lmi_deploy.ports.object_store import Part, Upload
from lmi_deploy.weights.buffer_pool import Slab
from lmi_deploy.weights.hashing import Seal
from lmi_deploy.weights.part_size import Span, part_count, spans


class Reading:
    """`kept`: parts that the upload had before. A part's buffer is let go once it is hashed and sent."""

    def __init__(self, entry: FileEntry) -> None:
        self.spans: Iterator[Span] = spans(entry.size)
        self.seal = Seal(entry)
        self.upload: Upload | None = None
        self.kept: dict[int, Part] = {}
        self.broken = False
        self.safe = 0
        """Bytes of it that the bucket has."""
        self.opening = threading.Lock()
        self._count = part_count(entry.size)
        self._parts: dict[int, Part] = {}
        self._crcs: dict[int, tuple[str, int]] = {}
        self._filled: dict[int, tuple[Slab, int]] = {}
        self._hashed = 0
        self._hashing = self._ended = False
        self._lock = threading.Lock()

    def hash_in_turn(self, span: Span, slab: Slab, crc: str) -> None:
        """Line a part up, and hash what is next in line, unless somebody is at it."""
        with self._lock:
            self._crcs[span.number] = (crc, span.size)
            if self.broken:
                return
            slab.hold()
            self._filled[span.number] = (slab, span.size)
            if self._hashing:
                return
            self._hashing = True
        while (following := self._following()) is not None:
            slab, size = following
            self.seal.update(slab.content[:size])
            slab.drop()
            with self._lock:
                self._hashed += 1

    def _following(self) -> tuple[Slab, int] | None:
        with self._lock:
            following = self._filled.pop(self._hashed + 1, None)
            self._hashing = following is not None
            return following

    def sent(self, part: Part) -> None:
        with self._lock:
            self.safe += part.size
            self._parts[part.number] = part

    def ends_now(self) -> bool:
        """Whether everything is hashed and sent; true for one caller only."""
        with self._lock:
            whole = len(self._parts) == self._count == self._hashed
            first = whole and not self._ended and not self.broken
            self._ended = self._ended or first
            return first

    def in_order(self) -> list[Part]:
        return [self._parts[number] for number in sorted(self._parts)]

    def crc_of(self, span: Span) -> str:
        return self._crcs[span.number][0]

    def crc(self) -> str:
        """Of the whole file."""
        return crc32_joined(self._crcs[number] for number in sorted(self._crcs))

    def abandon(self) -> bool:
        """Let every buffer go; false where somebody was first."""
        with self._lock:
            first, self.broken = not self.broken, True
            filled, self._filled = self._filled, {}
        for slab, _ in filled.values():
            slab.drop()
        return first
