"""What a response of SageMaker's runtime becomes when it does not end as it should."""

from __future__ import annotations

import asyncio

import pytest

from lmi_deploy.emulator.wire.eventstream import CONTENT_TYPE, event, exception
from lmi_deploy.inference_client.client import HttpAddress, InferenceClient
from lmi_deploy.proxy.openai_error import OpenAIError
from lmi_deploy.proxy.upstream import UpstreamResponse

HEAD = f"HTTP/1.1 200 OK\r\nContent-Type: {CONTENT_TYPE}\r\nX-Amzn-SageMaker-Content-Type: application/jsonlines\r\n"


def read(stream: bytes, *, announced: int = 0) -> tuple[str, bytes]:
    """The content type and the payload of a response with this stream as its body."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"{HEAD}Content-Length: {announced or len(stream)}\r\n\r\n".encode() + stream)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def use() -> tuple[str, bytes]:
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        client = InferenceClient()
        address = HttpAddress.parse(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        try:
            response = UpstreamResponse(await client.post(address, (), b"", timeout=10))
            return response.head.header("content-type"), await response.read()
        finally:
            client.close()
            server.close()
            await asyncio.sleep(0.05)

    return asyncio.run(use())


def damaged(stream: bytes) -> bytes:
    return stream[:-10] + bytes([stream[-10] ^ 1]) + stream[-9:]


def test_payloads_of_the_events_are_joined() -> None:
    assert read(event("PayloadPart", b"one") + event("PayloadPart", b"two")) == (
        "application/jsonlines",
        b"onetwo",
    )


@pytest.mark.parametrize(
    ("stream", "announced", "words"),
    [
        (damaged(event("PayloadPart", b"x" * 20)), 0, "checksum"),
        (event("PayloadPart", b"x")[:-3], 0, "ends inside a message"),
        (event("PayloadPart", b"x"), 999, "closed before the end"),
    ],
)
def test_damaged_or_cut_stream_is_an_error(stream: bytes, announced: int, words: str) -> None:
    with pytest.raises(OpenAIError, match=words) as failed:
        read(event("PayloadPart", b"first") + stream, announced=announced and announced + len(stream))
    assert (failed.value.status, failed.value.code) == (502, "stream_broken")


@pytest.mark.parametrize(("reason", "status"), [("ModelInvocationTimeExceeded", 504), ("StreamBroken", 502)])
def test_exception_in_the_stream_is_an_error(reason: str, status: int) -> None:
    fields = {"Message": "words of SageMaker", "ErrorCode": reason}
    with pytest.raises(OpenAIError, match="words of SageMaker") as failed:
        read(event("PayloadPart", b"x") + exception("ModelStreamError", fields))
    assert failed.value.status == status
