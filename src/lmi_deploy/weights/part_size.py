"""A file cut into parts, within S3's limits: the same cut for everybody, so that a later run can go on with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lmi_deploy.domain.byte_units import MIB
from lmi_deploy.errors import Unresolvable

LEAST, MOST, COUNT = 5 * MIB, 5 << 30, 10_000
"""S3: bytes of a part (but the last), and parts of an object."""
USUAL = 8 * MIB
"""Small, so that the same memory contains more of them: servers limit each connection, and more are open at once."""
LONG_FILE, OF_LONG_FILE = 512 * MIB, 16 * MIB
"""Files from this size on have larger parts: the request of a part costs 2 ms of processor whatever its size."""
SMALL = 8 * MIB
"""A smaller file is sent in one piece."""
LARGEST = MOST * COUNT


@dataclass(frozen=True, slots=True)
class Span:
    """Part `number` (from 1): `size` bytes from `start`."""

    number: int
    start: int
    size: int


def part_size(size: int) -> int:
    """Only the file's size decides: two runs with other settings have the same parts."""
    if size > LARGEST:
        raise Unresolvable(
            f"a file of {size} bytes: S3 accepts at most {LARGEST}", hint="split it into shards"
        )
    least = -(-size // COUNT)
    usual = OF_LONG_FILE if size >= LONG_FILE else USUAL
    return max(usual, -(-least // MIB) * MIB)


def spans(size: int) -> Iterator[Span]:
    each = part_size(size)
    for number, start in enumerate(range(0, size, each), 1):
        yield Span(number, start, min(each, size - start))


def part_count(size: int) -> int:
    return -(-size // part_size(size))
