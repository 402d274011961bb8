"""The buffers that everything passes through: their number is the bound on memory, and the back-pressure."""

from __future__ import annotations

import mmap
import threading
from contextlib import suppress
from typing import Final

HUGE: Final = 2 << 20


class PoolStopped(Exception):
    """The transfer was stopped: waiting workers return."""


class Buffer:
    """One buffer and its number of users: it is free for the next part when all have released it."""

    def __init__(self, owner: BufferPool, content: memoryview) -> None:
        self.content = content
        self.holders = 1
        self._owner = owner

    def hold(self) -> None:
        self._owner.hold(self)

    def drop(self) -> None:
        self._owner.drop(self)


class BufferPool:
    """`count` buffers of `size` bytes, allocated at first use and reused."""

    def __init__(self, count: int, size: int) -> None:
        self.count = count
        self.size = size
        self.most = 0
        """The maximum number in use at once."""
        self._free: list[memoryview] = []
        self._unallocated = count
        self._in_use = 0
        self._change = threading.Condition()
        self._stopped = False

    def take(self) -> Buffer:
        """A buffer, as soon as one is free. Raises PoolStopped."""
        with self._change:
            while not (self._free or self._unallocated or self._stopped):
                self._change.wait()
            if self._stopped:
                raise PoolStopped
            self._in_use += 1
            self.most = max(self.most, self._in_use)
            if self._free:
                return Buffer(self, self._free.pop())
            self._unallocated -= 1
        return Buffer(self, _allocate(self.size))

    def hold(self, buffer: Buffer) -> None:
        with self._change:
            buffer.holders += 1

    def drop(self, buffer: Buffer) -> None:
        with self._change:
            buffer.holders -= 1
            if buffer.holders == 0:
                self._in_use -= 1
                self._free.append(buffer.content)
                self._change.notify()

    def stop(self) -> None:
        with self._change:
            self._stopped = True
            self._change.notify_all()


def _allocate(size: int) -> memoryview:
    """In large pages on Linux: reading it completely (a hash, TLS) takes a third less time."""
    if size < HUGE:
        return memoryview(bytearray(size))
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANON)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without them raises an error
            pages.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(pages)
