"""The binary messages: what is written is read back, by our reader and by the documented layout."""

from __future__ import annotations

import asyncio
import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.server.workers.djl_protocol import (
    WireError,
    WireReader,
    WorkerResponse,
    pack_request,
    pack_text,
    unpack_map,
)
from tests.support.stream_pair import stream_of

Pairs = list[tuple[str, str]]
Entries = list[tuple[str | None, bytes]]
texts = st.text(st.characters(codec="utf-8"), max_size=20)
pairs = st.lists(st.tuples(texts, texts), max_size=5)
entries = st.lists(st.tuples(st.none() | texts, st.binary(max_size=50)), max_size=4)


def packed_answer(
    code: int, message: str, properties: list[tuple[str, str]], content: list[tuple[str | None, bytes]]
) -> bytes:
    """A response has the layout of a request after its code and message."""
    return struct.pack(">h", code) + pack_text(message) + pack_request(properties, content)


def read(raw: bytes, *, largest: int = 1000) -> WorkerResponse:
    async def go() -> WorkerResponse:
        async with stream_of(raw) as (stream, _):
            return await WireReader(stream, largest=largest).read_response()

    return asyncio.run(go())


@given(st.integers(-32768, 32767), texts, pairs, entries)
def test_packed_response_is_read_back(code: int, message: str, properties: Pairs, content: Entries) -> None:
    response = read(packed_answer(code, message, properties, content))
    assert response == WorkerResponse(code, message, tuple(properties), tuple(content))


def test_packed_request_equals_the_documented_bytes() -> None:
    raw = pack_request([("handler", "handle"), ("requestId", "id-1")], [("data", b"unary")])
    assert raw.hex(" ") == (
        "00 02 00 00 00 07 68 61 6e 64 6c 65 72 00 00 00 06 68 61 6e 64 6c 65 "
        "00 00 00 09 72 65 71 75 65 73 74 49 64 00 00 00 04 69 64 2d 31 "
        "00 01 00 00 00 04 64 61 74 61 00 00 00 05 75 6e 61 72 79"
    )


def test_frames_follow_a_streamed_response() -> None:
    async def go() -> list[tuple[bool, bytes]]:
        head = struct.pack(">h", 200) + pack_text("OK") + struct.pack(">hh", 0, -1)
        async with stream_of(head + b"\x01" + pack_text("one") + b"\x00" + pack_text("")) as (stream, _):
            reader = WireReader(stream)
            assert (await reader.read_response()).streamed
            return [await reader.frame(), await reader.frame()]

    assert asyncio.run(go()) == [(True, b"one"), (False, b"")]


def test_response_over_the_limit_is_refused_unread() -> None:
    with pytest.raises(WireError, match="a response of 11 bytes: the limit is 10"):
        read(packed_answer(200, "OK", [], [(None, b"x" * 11)]), largest=10)


def test_more_entries_than_the_protocol_allows_are_refused() -> None:
    with pytest.raises(WireError, match="40000 entries"):
        pack_request([("a", "b")] * 40000, [])


def test_response_body_is_the_entry_data_or_the_first() -> None:
    assert WorkerResponse(200, "OK", (), ((None, b"a"), ("data", b"b"))).body() == b"b"
    assert WorkerResponse(200, "OK", (), (("k", b"a"), ("l", b"b"))).body() == b"a"
    assert WorkerResponse(204, "No content").body() == b""


@given(st.dictionaries(texts, texts, max_size=5))
def test_map_is_read_back(pairs: dict[str, str]) -> None:
    raw = struct.pack(">h", len(pairs)) + b"".join(pack_text(k) + pack_text(v) for k, v in pairs.items())
    assert unpack_map(raw) == pairs


@given(st.binary(max_size=40))
def test_random_bytes_raise_at_most_a_wire_error(raw: bytes) -> None:
    with contextlib.suppress(WireError):
        unpack_map(raw)
