"""One read of a large file: its parts arrive in any order, and are hashed in file order."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from lmi_deploy.domain.crc32 import crc32_joined
from lmi_deploy.domain.gathered_facts import FileEntry
from lmi_deploy.ports.object_store import MultipartUpload, Part
from lmi_deploy.weights.buffer_pool import Buffer
from lmi_deploy.weights.part_size import Span, part_count, spans
from lmi_deploy.weights.streaming_hash import FileHasher


class MultipartState:
    """`existing_parts`: parts that the upload had before. A part's buffer is released once it is hashed and sent."""

    def __init__(self, entry: FileEntry) -> None:
        self.spans: Iterator[Span] = spans(entry.size)
        self.hasher = FileHasher(entry)
        self.upload: MultipartUpload | None = None
        self.existing_parts: dict[int, Part] = {}
        self.failed = False
        self.safe = 0
        """Bytes of it that the bucket has."""
        self.opening = threading.Lock()
        self._count = part_count(entry.size)
        self._parts: dict[int, Part] = {}
        self._crcs: dict[int, tuple[str, int]] = {}
        self._filled: dict[int, tuple[Buffer, int]] = {}
        self._hashed = 0
        self._hashing = self._ended = False
        self._lock = threading.Lock()

    def hash_in_turn(self, span: Span, buffer: Buffer, crc: str) -> None:
        """Queue a part, and hash the parts that are next in order, unless another thread is doing it."""
        with self._lock:
            self._crcs[span.number] = (crc, span.size)
            if self.failed:
                return
            buffer.hold()
            self._filled[span.number] = (buffer, span.size)
            if self._hashing:
                return
            self._hashing = True
        while (following := self._following()) is not None:
            buffer, size = following
            self.hasher.update(buffer.content[:size])
            buffer.drop()
            with self._lock:
                self._hashed += 1

    def _following(self) -> tuple[Buffer, int] | None:
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
            is_complete = len(self._parts) == self._count == self._hashed
            first = is_complete and not self._ended and not self.failed
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
        """Release every buffer; false if another thread was first."""
        with self._lock:
            first, self.failed = not self.failed, True
            filled, self._filled = self._filled, {}
        for buffer, _ in filled.values():
            buffer.drop()
        return first
