"""How files are split: within S3's limits, whatever their size."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.domain.byte_units import MIB
from lmi_deploy.errors import Unresolvable, UsageRefused
from lmi_deploy.weights.part_size import (
    COUNT,
    LARGEST,
    LEAST,
    LONG_FILE,
    MOST,
    OF_LONG_FILE,
    USUAL,
    part_count,
    part_size,
    spans,
)
from lmi_deploy.weights.transfer_settings import TransferSettings
from tests.support.hypothesis_settings import examples

GIB = 1 << 30


@examples(60)
@given(st.one_of(st.integers(1, 300 * MIB), st.integers(1, LARGEST), st.sampled_from([40 * GIB, 200 * GIB])))
def test_part_size_respects_the_s3_limits(size: int) -> None:
    each = part_size(size)
    assert LEAST <= each <= MOST
    assert part_count(size) <= COUNT
    assert (part_count(size) - 1) * each < size <= part_count(size) * each


@examples(60)
@given(st.integers(1, 3000 * MIB))
def test_parts_cover_the_file_exactly(size: int) -> None:
    found = list(spans(size))
    assert [span.number for span in found] == list(range(1, part_count(size) + 1))
    assert found[0].start == 0
    assert all(a.start + a.size == b.start for a, b in pairwise(found))
    assert found[-1].start + found[-1].size == size
    assert {span.size for span in found[:-1]} <= {part_size(size)}


@pytest.mark.parametrize(
    ("size", "each"),
    [(LONG_FILE - 1, USUAL), (LONG_FILE, OF_LONG_FILE), (COUNT * OF_LONG_FILE + 1, OF_LONG_FILE + MIB)],
)
def test_long_files_have_larger_parts(size: int, each: int) -> None:
    assert part_size(size) == each


def test_file_over_the_s3_limit_is_refused() -> None:
    with pytest.raises(Unresolvable, match="at most"):
        part_size(LARGEST + 1)


@pytest.mark.parametrize("size", [USUAL, 40 * GIB, 200 * GIB])
def test_default_memory_suffices_for_any_file(size: int) -> None:
    settings = TransferSettings()
    buffer = part_size(size)
    assert settings.buffers(buffer) >= 2
    assert settings.buffers(buffer) * buffer + settings.resident <= settings.memory


def test_too_small_memory_is_refused_with_the_minimum() -> None:
    with pytest.raises(UsageRefused, match="are too small for 2 parts") as caught:
        TransferSettings(memory=110_000_000).buffers(USUAL)
    assert caught.value.hint == "allow at least 117 MB"
    assert TransferSettings(memory=117_000_000).buffers(USUAL) == 2
