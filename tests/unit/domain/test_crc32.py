"""CRC32 as S3 writes it, and joined without the bytes."""

import subprocess
import sys
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.domain.crc32 import crc32, crc32_joined, crc32_number, crc32_of, crc32_text


@given(st.lists(st.binary(max_size=300), max_size=6))
def test_crc32_of_the_whole_follows_from_its_chunks(chunks: list[bytes]) -> None:
    assert crc32_joined((crc32_of(chunk), len(chunk)) for chunk in chunks) == crc32_of(b"".join(chunks))


@given(st.binary(min_size=1, max_size=50), st.integers(min_value=0, max_value=1 << 45))
def test_crc32_of_very_long_chunks_can_be_joined(tail: bytes, zeros: int) -> None:
    joined = crc32_joined([(crc32_text(0), 0), (crc32_of(tail), len(tail)), (crc32_text(0), zeros)])
    assert len(joined) == 8


def test_crc32_text_is_the_form_of_s3() -> None:
    assert crc32_of(b"123456789") == "y/Q5Jg=="
    assert crc32_number("y/Q5Jg==") == zlib.crc32(b"123456789")


@pytest.mark.parametrize("text", ["", "y/Q5", "not base64!", "y/Q5JgAA"])
def test_invalid_crc32_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        crc32_number(text)


@given(st.binary(max_size=5000), st.integers(min_value=0, max_value=(1 << 32) - 1))
def test_crc32_equals_zlib(content: bytes, before: int) -> None:
    assert crc32(memoryview(content), before) == zlib.crc32(content, before)


def test_crc32_works_without_zlib_ng() -> None:
    without = "import sys; sys.modules['zlib_ng'] = None; from lmi_deploy.domain.crc32 import crc32_of; "
    output = subprocess.run(
        [sys.executable, "-c", f"{without} print(crc32_of(b'123456789'))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert output.stdout == "y/Q5Jg==\n"
