"""Bytes of a source in a buffer: checksummed as they come, whatever their chunks."""

import threading
from collections.abc import Iterator

import pytest

from lmi_deploy.domain.crc32 import crc32_of
from lmi_deploy.domain.gathered_facts import FileEntry, ModelListing
from lmi_deploy.errors import TransferFailed
from lmi_deploy.ports.source import BytesRead
from lmi_deploy.weights.buffer_pool import HUGE, BufferPool, PoolStopped
from lmi_deploy.weights.transfer_context import TransferContext
from lmi_deploy.weights.transfer_progress import TransferProgress
from tests.support.fake_store import FakeStore

CONTENT = bytes(range(256)) * 40
ENTRY = FileEntry(path="a", size=len(CONTENT), oid="0" * 64, kind="sha256")


class ChunkSource:
    """Up to each of these offsets in turn."""

    def __init__(self, *reached: int) -> None:
        self._reached = reached

    def read_into(
        self, listing: ModelListing, path: str, buffer: memoryview, *, start: int
    ) -> Iterator[BytesRead]:
        for reached in self._reached:
            buffer[:reached] = CONTENT[:reached]
            yield BytesRead(reached, "trying again" if reached == 77 else "")


def context(*reached: int) -> TransferContext:
    listing = ModelListing(model_id="m", commit="c", files=(ENTRY,), source="hub")
    return TransferContext(listing, ChunkSource(*reached), FakeStore(), "w/", TransferProgress(len(CONTENT)))


@pytest.mark.parametrize("reached", [(len(CONTENT),), (0, 77, 77, 5000, len(CONTENT)), (1, len(CONTENT))])
def test_crc32_is_that_of_the_content(reached: tuple[int, ...]) -> None:
    buffer = bytearray(len(CONTENT))
    assert context(*reached).read_into(ENTRY, memoryview(buffer), 0) == crc32_of(CONTENT)
    assert buffer == CONTENT


def test_incomplete_content_is_an_error() -> None:
    with pytest.raises(TransferFailed, match=r"a: received 5 of 10240 bytes"):
        context(5).read_into(ENTRY, memoryview(bytearray(len(CONTENT))), 0)


@pytest.mark.parametrize("size", [1, 4096, HUGE, HUGE + 1])
def test_buffer_has_its_size_and_is_reused(size: int) -> None:
    buffers = BufferPool(1, size)
    first = buffers.take()
    first.content[:] = bytes([7]) * size
    assert bytes(first.content) == bytes([7]) * size
    first.drop()
    second = buffers.take()
    assert second.content.obj is first.content.obj
    waiting = threading.Timer(0.05, buffers.stop)
    waiting.start()
    with pytest.raises(PoolStopped):
        buffers.take()
    waiting.join()
