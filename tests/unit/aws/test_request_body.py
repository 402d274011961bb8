"""Memory as a request body: the same bytes in larger steps, from any position."""

import io

from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.aws.s3.multipart_calls import RequestBody

_CONTENT = bytes(range(256)) * 12_289


@given(st.integers(0, len(_CONTENT)), st.integers(1, 1 << 21))
def test_body_reads_equal_from_any_position_with_any_step(start: int, step: int) -> None:
    payload = RequestBody(memoryview(_CONTENT))
    assert payload.seek(start) == start == payload.tell()
    out = io.BytesIO()
    while chunk := payload.read(step):
        assert len(chunk) >= min(step, len(_CONTENT) - start - out.tell())
        out.write(chunk)
    assert out.getvalue() == _CONTENT[start:]


def test_body_length_does_not_depend_on_the_position() -> None:
    payload = RequestBody(memoryview(_CONTENT)[5:])
    payload.read(10)
    assert len(payload) == len(_CONTENT) - 5
    assert payload.seek(0, 2) == len(_CONTENT) - 5
    assert bytes(payload.read()) == b""
    payload.seek(-3, 1)
    assert bytes(payload.read(-1)) == _CONTENT[-3:]
    payload.seek(0)
    assert bytes(payload.read(-1)) == _CONTENT[5:]
