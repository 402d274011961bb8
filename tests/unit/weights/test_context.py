"""Bytes of a source in a buffer: summed while they come, whatever pieces they come in."""

import threading
from collections.abc import Iterator

import pytest

from lmi_deploy.domain.crc32 import crc32_of
from lmi_deploy.domain.facts import FileEntry, ModelListing
from lmi_deploy.errors import TransferFailed
from lmi_deploy.ports.source import Arrived
from lmi_deploy.weights.buffer_pool import HUGE, Slabs, Stopped
from lmi_deploy.weights.context import Ends
from lmi_deploy.weights.progress import Board
from tests.support.fake_store import FakeStore

CONTENT = bytes(range(256)) * 40
ENTRY = FileEntry(path="a", size=len(CONTENT), oid="0" * 64, kind="sha256")


class Pieces:
    """Up to each of these places in turn."""

    def __init__(self, *reached: int) -> None:
        self._reached = reached

    def fill(self, listing: ModelListing, path: str, buffer: memoryview, *, start: int) -> Iterator[Arrived]:
        for reached in self._reached:
            buffer[:reached] = CONTENT[:reached]
            yield Arrived(reached, "trying again" if reached == 77 else "")


def ends(*reached: int) -> Ends:
    listing = ModelListing(model_id="m", commit="c", files=(ENTRY,), source="hub")
    return Ends(listing, Pieces(*reached), FakeStore(), "w/", Board(len(CONTENT)))


@pytest.mark.parametrize("reached", [(len(CONTENT),), (0, 77, 77, 5000, len(CONTENT)), (1, len(CONTENT))])
def test_the_sum_is_that_of_the_content(reached: tuple[int, ...]) -> None:
    buffer = bytearray(len(CONTENT))
    assert ends(*reached).fill(ENTRY, memoryview(buffer), 0) == crc32_of(CONTENT)
    assert buffer == CONTENT


def test_less_than_all_is_told() -> None:
    with pytest.raises(TransferFailed, match=r"a: 5 of 10240 bytes came"):
        ends(5).fill(ENTRY, memoryview(bytearray(len(CONTENT))), 0)


@pytest.mark.parametrize("size", [1, 4096, HUGE, HUGE + 1])
def test_a_slab_is_memory_of_its_size_and_used_again(size: int) -> None:
    slabs = Slabs(1, size)
    first = slabs.take()
    first.content[:] = bytes([7]) * size
    assert bytes(first.content) == bytes([7]) * size
    first.drop()
    second = slabs.take()
    assert second.content.obj is first.content.obj
    waiting = threading.Timer(0.05, slabs.stop)
    waiting.start()
    with pytest.raises(Stopped):
        slabs.take()
    waiting.join()
