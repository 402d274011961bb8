"""When responses are read: while the event loop is idle, and in any case before there is too much of them."""

from __future__ import annotations

import asyncio
import time

from lmi_deploy.bench.prompt_files import BenchRequest
from lmi_deploy.bench.request_records import RequestRecord
from lmi_deploy.bench.request_target import EncodedRequest, RequestForm, openai_target
from lmi_deploy.bench.response_reader import ResponseReader, UnreadResponse
from lmi_deploy.bench.response_reading import RawResponse
from lmi_deploy.domain.inference_http import HttpRequest

SSE = ((b"content-type", b"text/event-stream"),)
TOKEN = b'data: {"choices": [{"delta": {"content": "a"}, "finish_reason": null}]}\n\n'
LAST = b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n'
ERROR = b'data: {"error": {"message": "out of memory"}}\n\n'


def unread(*parts: bytes, scheduled: float = 0.0) -> UnreadResponse:
    timed = [(float(number), part) for number, part in enumerate(parts, start=1)]
    raw = RawResponse(scheduled=scheduled, end=99.0, status=200, headers=SSE, parts=timed)
    request = EncodedRequest(HttpRequest(body=b"1234567", headers=()), BenchRequest(input_tokens=11))
    return UnreadResponse(raw, request, is_warmup=False)


def test_input_tokens_are_those_of_the_server_else_of_the_tokenizer() -> None:
    reader = reader_of([])
    usage = b'data: {"choices": [], "usage": {"prompt_tokens": 14, "completion_tokens": 1}}\n\n'
    records = [reader.read_now(unread(TOKEN, LAST, *more)) for more in ((usage,), ())]
    assert [(one.input_tokens, one.input_counted_by) for one in records] == [
        (14, "server"),
        (11, "tokenizer"),
    ]
    assert [one.output_tokens for one in records] == [1, 1]


def reader_of(failed: list[RequestRecord], **more: int) -> ResponseReader:
    return ResponseReader(
        openai_target("http://127.0.0.1:1", "m", None), RequestForm(), failed.append, **more
    )


async def run_beside(reader: ResponseReader, work: float, turns: int) -> int:
    """A loop that is busy for `work` seconds in each turn. How many responses were read meanwhile."""
    reading = asyncio.create_task(reader.run())
    for _ in range(turns):
        until = time.perf_counter() + work
        while time.perf_counter() < until:
            pass
        await asyncio.sleep(0)
    reading.cancel()
    return len(reader.records)


def test_idle_loop_reads() -> None:
    async def run() -> int:
        reader = reader_of([])
        for _ in range(3):
            reader.add(unread(TOKEN, LAST))
        reading = asyncio.create_task(reader.run())
        async with asyncio.timeout(10):
            while len(reader.records) < 3:
                await asyncio.sleep(0.01)
        reading.cancel()
        return len(reader.records)

    assert asyncio.run(run()) == 3


def test_busy_loop_leaves_all_of_it_for_the_end() -> None:
    async def run() -> tuple[int, int]:
        reader = reader_of([])
        for _ in range(50):
            reader.add(unread(TOKEN, LAST))
        during = await run_beside(reader, 0.002, 40)
        await reader.read_rest(lambda: None)
        return during, len(reader.records)

    assert asyncio.run(run()) == (0, 50)


def test_too_much_is_read_though_the_loop_is_busy() -> None:
    async def run() -> int:
        reader = reader_of([], most_waiting=50_000)
        for _ in range(100):
            reader.add(unread(TOKEN, LAST))
        return await run_beside(reader, 0.002, 200)

    left = 50_000 // 2000
    assert 100 - left <= asyncio.run(run()) < 100


def test_long_stream_is_read_in_steps_and_none_of_it_is_lost() -> None:
    async def run() -> tuple[list[RequestRecord], int]:
        reader, watched = reader_of([]), [0]
        reader.add(unread(*[TOKEN] * 20_000, LAST))
        reader.add(unread(TOKEN, LAST))

        def watch() -> None:
            watched[0] += 1

        await reader.read_rest(watch)
        return reader.records, watched[0]

    records, watched = asyncio.run(run())
    assert [(len(one.arrivals), one.output_tokens, one.sent_bytes) for one in records] == [
        (20_000, 20_000, 7),
        (1, 1, 7),
    ]
    assert watched > 0


def test_failure_in_a_body_is_reported_with_the_streams_that_ended_early() -> None:
    async def run() -> tuple[list[RequestRecord], frozenset[int]]:
        failed: list[RequestRecord] = []
        reader = reader_of(failed)
        for parts in ((TOKEN, LAST), (TOKEN, ERROR), (TOKEN,)):
            reader.add(unread(*parts))
        await reader.read_rest(lambda: None)
        return failed, reader.early_ends()

    failed, early = asyncio.run(run())
    assert [(one.number, one.error, one.detail) for one in failed] == [(1, "stream_error", "out of memory")]
    assert early == {2}
