"""One client connection: requests in, responses out, in order, with back-pressure."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence

from lmi_deploy.server.error_responses import ErrorReply
from lmi_deploy.server.http import responses
from lmi_deploy.server.http.request_head_parser import MalformedRequest, ReceivedRequest
from lmi_deploy.server.http.request_reader import BadExpectation, Idle, RequestReader, TooLarge, TooSlow
from lmi_deploy.server.http.responses import Response
from lmi_deploy.server.http.socket_stream import SocketStream
from lmi_deploy.server.log import Log
from lmi_deploy.server.server_settings import ServerSettings
from lmi_deploy.server.workers.djl_protocol import Pair

# The real server buffers the unread data of a slow client in memory, without a limit; here up to this much per
# connection.
WRITE_AHEAD = 64 * 1024 * 1024

Application = Callable[["Exchange"], Awaitable[None]]


class ConnectionClosed(Exception):
    """Reset the connection: the response cannot be finished, and the client must notice."""


class Exchange:
    """One request and the means to respond."""

    def __init__(self, connection: ClientConnection, request: ReceivedRequest) -> None:
        self.request = request
        given = request.header(connection.settings.request_id_key.lower())
        self.request_id = given if given is not None else str(uuid.uuid4())
        self.status = 0
        self._connection = connection

    def is_disconnected(self) -> bool:
        """Whether the client has left."""
        return self._connection.is_disconnected()

    async def reply(self, reply: Response) -> None:
        """The whole response at once."""
        keep = reply.status < 400 and not self._connection.is_drained
        chunked = any(n.lower() == "transfer-encoding" and v.lower() == "chunked" for n, v in reply.headers)
        # As the real server: its 101 and 304 have a length, and 304 no body.
        has_length = reply.status in (101, 304) or (reply.status != 204 and not 100 <= reply.status < 200)
        size = [("content-length", str(len(reply.body)))] if has_length else []
        has_body = has_length and reply.status != 304 and self.request.method != "HEAD"
        body = reply.body if has_body else b""
        if chunked and body:
            body = responses.chunk(body) + responses.LAST_CHUNK
        await self._send(reply, size, keep=keep, body=body)

    async def start_stream(self, head: Response) -> None:
        """Send the head of a response of unknown length."""
        coding = [("transfer-encoding", "chunked")]
        await self._send(head, coding, keep=not self._connection.is_drained)

    async def send_chunk(self, blob: bytes) -> None:
        if blob and self.request.method != "HEAD":
            await self._connection.send(responses.chunk(blob))

    async def end_stream(self) -> None:
        if self.request.method != "HEAD":
            await self._connection.send(responses.LAST_CHUNK)

    async def _send(self, head: Response, framing: list[Pair], *, keep: bool, body: bytes = b"") -> None:
        self.status = head.status
        self._connection.keep = keep
        named = [("x-request-id", self.request_id)]
        if cors := self._connection.settings.cors:
            stated = {name.lower() for name, _ in head.headers}
            named += [pair for pair in cors if pair[0] not in stated]
        closing = ("connection", "keep-alive" if keep else "close")
        headers = [*head.headers, *named, *responses.NEVER_CACHED, *framing, closing]
        reason = head.reason or responses.reason_of(head.status)
        await self._connection.send(responses.head(head.status, reason, headers) + body)


class ClientConnection(SocketStream):
    """Serves one client until it leaves, an error closes the connection, or the server drains."""

    def __init__(
        self,
        settings: ServerSettings,
        application: Application,
        opened: Callable[[ClientConnection], None],
        log: Log,
    ) -> None:
        super().__init__()
        self.settings = settings
        self.keep = True
        self.draining = False
        self._between = True
        self._application = application
        self._opened = opened
        self._log = log
        self._requests = RequestReader(self, max_body=settings.max_request_size, limits=settings.time_limits)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.set_write_buffer_limits(high=WRITE_AHEAD)
        self._opened(self)

    @property
    def idle(self) -> bool:
        """Whether every request has its response."""
        return self._between

    @property
    def is_drained(self) -> bool:
        """Whether no other request is answered: the server drains, and all that arrived were."""
        return self.draining and not self.have

    def is_disconnected(self) -> bool:
        """Whether the client has left."""
        return self.closing or (self.at_end and not self.have)

    @property
    def left(self) -> bool:
        """Whether the client left before the response."""
        return self.at_end and not self.have and not self.idle

    async def run(self) -> None:
        """Handle requests one after the other; never raises for a client's error."""
        try:
            while self.keep and not self.is_drained:
                await self._one()
                if self.have:  # requests that arrived together: other clients' have their turn between them
                    await asyncio.sleep(0)
        except (OSError, EOFError, ConnectionClosed):
            self.abort()
        except asyncio.CancelledError:
            self.abort()
            raise
        except Exception as exc:  # noqa: BLE001 (after any error the socket must be closed)
            self._log.defect("a connection failed and was closed", exc)
            self.abort()
        await self._leave()

    async def _leave(self) -> None:
        """Close once the client has read the pending data, or stops reading it."""
        limits = self.settings.time_limits
        self.close()
        try:
            async with asyncio.timeout(limits.body + self.unsent / limits.slowest):
                await self.closed()
        except TimeoutError:
            self.abort()
            await self.closed()

    async def send(self, raw: bytes) -> None:
        """Write bytes to the socket; wait when the client is far behind, and give up when it stops reading."""
        if self.closing:
            raise ConnectionClosed
        self.write(raw)
        if not self.full:
            return
        try:
            async with asyncio.timeout(self.settings.chunked_read_timeout):
                await self.drain()
        except TimeoutError as exc:
            raise ConnectionClosed from exc

    async def _one(self) -> None:
        self._between = True
        try:
            request = await self._requests.head()
            if request is None:
                self.keep = False
                return
            self._between = False
            request = await self._requests.body(request)
        except Idle:
            self.keep = False
        except TooSlow:
            await self._bare(408, "Request Timeout", keep=False)
        except MalformedRequest as exc:
            message = "Invalid HTTP message."
            refusal = ErrorReply(400, "BadRequestException", message, reason=message)
            exchange = Exchange(self, exc.request or ReceivedRequest("GET", "/", []))
            await exchange.reply(responses.error_response(refusal, 400))
        except TooLarge as exc:
            await self._too_large(exc)
        except BadExpectation:
            await self._bare(417, "Expectation Failed", keep=False)
        else:
            await self._application(Exchange(self, request))

    async def _too_large(self, refused: TooLarge) -> None:
        """Answered before the body arrives: a client may wait for that."""
        closing = [("connection", "close")] if refused.closing else []
        keep = refused.skip is not None
        await self._bare(413, "Request Entity Too Large", keep=keep, headers=closing)
        if refused.skip is not None:
            try:
                await self._requests.skip(refused.skip)
            except TooSlow:
                self.keep = False

    async def _bare(self, status: int, reason: str, *, keep: bool, headers: Sequence[Pair] = ()) -> None:
        self.keep = keep
        await self.send(responses.head(status, reason, [("content-length", "0"), *headers]))
