"""Lines and events are the same, however the bytes were cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.inference_client.line_splitting import EventDecoder, LineDecoder


def decoded(decoder: LineDecoder | EventDecoder, stream: bytes, size: int) -> list[bytes]:
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    return [*(line for piece in pieces for line in decoder.feed(piece)), *decoder.close()]


@given(st.lists(st.text("ab \u00e9{}", max_size=8), max_size=6), st.integers(1, 9), st.booleans())
def test_lines_are_whole_in_pieces_of_any_size(lines: list[str], size: int, ended: bool) -> None:
    stream = ("\n".join(lines) + ("\n" if ended else "")).encode()
    expected = [line.strip().encode() for line in lines if line.strip()]
    assert decoded(LineDecoder(), stream, size) == expected


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data:a\r\n\r\n", [b"a"]),
        (b"event: x\nid: 1\nretry: 3\n: comment\ndata: one\ndata: two\n\n", [b"one\ntwo"]),
        (b"data: unended", [b"unended"]),
        (b"data: a\n\nCUDA error\n", [b"a", b"CUDA error"]),
        (b"\n\n\n", []),
    ],
)
def test_events(stream: bytes, events: list[bytes], size: int) -> None:
    assert decoded(EventDecoder(), stream, size) == events
