"""A model server of fixed latency, a program of its own: `python -m benchmarks.proxy_upstream`. It prints its port.

A request whose body asks for a stream gets TOKENS JSON lines, a chunk each, the first after FIRST; with the user
`paced`, one every PACE; with the user `short`, SHORT of them. Any other gets one whole response after LATENCY.
Connections stay open.
"""

from __future__ import annotations

import asyncio
import json
import sys

LATENCY = 0.1
FIRST = 0.02
TOKENS = 2000
SHORT = 16
PACE = 0.004
_BODY = json.dumps(
    {
        "id": "chatcmpl-0",
        "object": "chat.completion",
        "created": 1,
        "model": "fixed",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "OK " * 64}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 8, "completion_tokens": 64, "total_tokens": 72},
    }
).encode()
_WHOLE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
    len(_BODY),
    _BODY,
)
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/jsonlines\r\ntransfer-encoding: chunked\r\n\r\n"


def _chunk(delta: dict[str, str], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    common = {"id": "chatcmpl-0", "object": "chat.completion.chunk", "created": 1, "model": "fixed"}
    line = json.dumps({**common, "choices": [choice]}).encode() + b"\n"
    return b"%x\r\n%b\r\n" % (len(line), line)


_TOKEN, _LAST = _chunk({"content": " token"}), _chunk({}, "stop") + b"0\r\n\r\n"


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            size = int(head.partition(b"content-length:")[2].partition(b"\r")[0])
            body = (await reader.readexactly(size)).replace(b" ", b"")
            if b'"stream":true' in body:
                count = SHORT if b'"short"' in body else TOKENS
                await _stream(writer, count, PACE if b'"paced"' in body else 0)
            else:
                await asyncio.sleep(LATENCY)
                writer.write(_WHOLE)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def _stream(writer: asyncio.StreamWriter, count: int, pace: float) -> None:
    writer.write(_HEAD)
    await asyncio.sleep(FIRST)
    for _ in range(count):
        writer.write(_TOKEN)
        await writer.drain()
        await asyncio.sleep(pace)
    writer.write(_LAST)


async def _main() -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)  # until the benchmark ends


if __name__ == "__main__":
    asyncio.run(_main())
