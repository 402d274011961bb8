"""SageMaker's event stream: read as botocore reads it, however it is cut, and never when it is damaged."""

from __future__ import annotations

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.emulator.wire.eventstream import event, exception
from lmi_deploy.inference_client.eventstream import DamagedStream, EventStreamDecoder, StreamMessage

messages = st.lists(
    st.binary(max_size=300).map(lambda data: event("PayloadPart", data))
    | st.text(max_size=40).map(lambda text: exception("ModelStreamError", {"Message": text})),
    max_size=6,
)


def read(stream: bytes) -> list[StreamMessage]:
    decoder = EventStreamDecoder()
    messages = decoder.feed(stream)
    decoder.close()
    return messages


@given(messages, st.integers(1, 50))
def test_the_messages_are_those_of_botocore_in_pieces_of_any_size(parts: list[bytes], size: int) -> None:
    stream = b"".join(parts)
    buffer = EventStreamBuffer()
    buffer.add_data(stream)
    expected = [StreamMessage(dict(message.headers), message.payload) for message in buffer]
    decoder = EventStreamDecoder()
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert [message for piece in pieces for message in decoder.feed(piece)] == expected
    decoder.close()


@given(st.binary(min_size=1, max_size=50), st.data())
def test_one_wrong_bit_is_noticed(payload: bytes, data: st.DataObject) -> None:
    stream = bytearray(event("PayloadPart", payload))
    at = data.draw(st.integers(0, len(stream) * 8 - 1))
    stream[at // 8] ^= 1 << at % 8
    with pytest.raises(DamagedStream):
        read(bytes(stream))


def test_a_stream_that_ends_inside_a_message_is_damaged() -> None:
    decoder = EventStreamDecoder()
    assert decoder.feed(event("PayloadPart", b"x")[:-1]) == []
    with pytest.raises(DamagedStream, match="ends inside a message"):
        decoder.close()


def test_headers_that_are_no_text_are_left_out() -> None:
    import struct
    import zlib

    head = b"\x01a\x00" + b"\x01b\x04\0\0\0\1" + b"\x01c\x07\0\1x" + b"\x01d\x06\0\2yz"
    prelude = struct.pack("!II", 16 + len(head), len(head))
    body = prelude + struct.pack("!I", zlib.crc32(prelude)) + head
    stream = body + struct.pack("!I", zlib.crc32(body))
    assert EventStreamDecoder().feed(stream) == [StreamMessage({"c": "x"}, b"")]
