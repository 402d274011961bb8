"""Fault rules before an aiohttp server: the middlewares, the runtime form, and a body that can be disturbed.

An application takes `deliver` and, inside of it, `faulty(rules)`; `add_fault_routes` gives it `/_faults`.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, assert_never

from aiohttp import web

from lmi_deploy.emulator.faults import rules
from lmi_deploy.emulator.faults.rule_files import describe, parse_rules
from lmi_deploy.emulator.faults.rules import BadRule, Call, End, FaultRules, Pause, Send, Step, inject

FAULTS_PATH: Final = "/_faults"
NAP: Final = 0.02
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_RANGE: Final = re.compile(r"(\d*)-(\d*)")


class FaultyResponse(web.StreamResponse):
    """A body in steps, of known or unknown length, sent by `deliver`; `sent` counts the bytes written."""

    def __init__(
        self, chunks: Iterable[bytes], *, length: int | None, headers: Mapping[str, str], status: int = 200
    ) -> None:
        super().__init__(status=status, headers=headers)
        if "Content-Type" not in headers:
            self.content_type = "application/octet-stream"
        self.content_length = length
        self.chunks = chunks
        self.steps: Iterable[Step] = (Send(chunk) for chunk in chunks)
        self.sent = 0

    async def carry_out(self, request: web.Request) -> None:
        """Send all of it; a client that disconnects stops it without an error."""
        with contextlib.suppress(ConnectionError):
            await self.prepare(request)
            for step in self.steps if request.method != "HEAD" else ():
                match step:
                    case Send(content=content):
                        # Counted first: a client with the last byte may read the count immediately.
                        self.sent += len(content)
                        await self.write(content)
                    case Pause(seconds=seconds):
                        await _wait(request, seconds)
                    case End(reset=reset):
                        hang_up(request, reset=reset)
                        return
                    case _:
                        assert_never(step)
            await self.write_eof()


async def _wait(request: web.Request, seconds: float) -> None:
    """Wait until the time is over or the client has disconnected."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while (
        (left := end - loop.time()) > 0
        and request.transport is not None
        and not request.transport.is_closing()
    ):
        await asyncio.sleep(min(left, NAP))


class NoResponse(web.Response):
    """What a handler returns when the connection is already closed."""


def hang_up(request: web.Request, *, reset: bool = False) -> None:
    """Close the connection now. A client sees a reset as ECONNRESET."""
    transport = request.transport
    if transport is None:
        return
    if reset:
        connection = transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    transport.close()


@web.middleware
async def deliver(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Send a `FaultyResponse` that a handler returns; this middleware is outside of the faults."""
    response = await handler(request)
    if isinstance(response, FaultyResponse):
        await response.carry_out(request)
    return response


def faulty(faults: FaultRules) -> Any:
    """A middleware under which the rules strike. Only `web.Response` and `FaultyResponse` bodies can be disturbed."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        rule = None
        if request.path != FAULTS_PATH:
            rule = faults.apply(Call(request.method, request.raw_path, request.headers))
        if rule is None:
            return await handler(request)
        await asyncio.sleep(rule.delay)
        return await _matching_fault(request, handler, rule.do)

    return middleware


async def _matching_fault(request: web.Request, handler: Handler, action: rules.Action) -> web.StreamResponse:
    match action:
        case rules.Answer(status=status, headers=headers, body=body):
            return web.Response(status=status, headers=headers, body=body.encode())
        case rules.Hang(seconds=seconds):
            await _wait(request, seconds)
            return _no_response(request, reset=False)
        case rules.Drop(reset=reset):
            return _no_response(request, reset=reset)
        case rules.Lose():
            await handler(request)
            return _no_response(request, reset=False)
        case rules.Repeat():
            await handler(request)
            return await handler(request)
        case rules.IgnoreRange():
            return await handler(_with_range(request, None))
        case rules.ShiftRange(by=by):
            return await handler(_with_range(request, by))
        case rules.ChangedResponse():
            return _changed(await handler(request), action)
        case rules.Cut() | rules.Stall() | rules.Flip() | rules.Pad():
            return _disturbed(await handler(request), action)
        case _:
            assert_never(action)


def _no_response(request: web.Request, *, reset: bool) -> NoResponse:
    hang_up(request, reset=reset)
    return NoResponse(status=500)


def _with_range(request: web.Request, by: int | None) -> web.Request:
    headers = request.headers.copy()
    requested = _RANGE.search(headers.pop("Range", ""))
    if by is not None and requested is not None:
        start, stop = (str(int(end) + by) if end else "" for end in requested.groups())
        headers["Range"] = f"bytes={start}-{stop}"
    return request.clone(headers=headers)


def _changed(response: web.StreamResponse, change: rules.ChangedResponse) -> web.StreamResponse:
    if change.status:
        response.set_status(change.status)
    response.headers.update(change.headers)
    for name in change.remove:
        response.headers.pop(name, None)
    return response


def _disturbed(
    response: web.StreamResponse, action: rules.Cut | rules.Stall | rules.Flip | rules.Pad
) -> FaultyResponse:
    if not isinstance(response, FaultyResponse):
        if not isinstance(response, web.Response) or response.prepared:
            raise TypeError(
                "a fault cannot change this body: return web.Response or Streamed from the handler"
            )
        body = response.body if isinstance(response.body, bytes) else b""
        response = FaultyResponse([body], length=len(body), headers=response.headers, status=response.status)
    response.steps = inject(action, response.chunks)
    if isinstance(action, rules.Pad):
        response.content_length = (response.content_length or 0) + action.count
    return response


def add_fault_routes(app: web.Application, faults: FaultRules) -> None:
    """`GET` shows the rules with their counts, `POST` adds some, `DELETE` takes all away."""

    async def show(request: web.Request) -> web.Response:
        return web.json_response({"rules": [describe(tally) for tally in faults.tallies()]})

    async def add(request: web.Request) -> web.Response:
        try:
            faults.add(*parse_rules(await request.text()))
        except BadRule as exc:
            return web.json_response({"error": exc.message, "hint": exc.hint}, status=400)
        return await show(request)

    async def clear(request: web.Request) -> web.Response:
        faults.clear()
        return await show(request)

    app.router.add_get(FAULTS_PATH, show)
    app.router.add_post(FAULTS_PATH, add)
    app.router.add_delete(FAULTS_PATH, clear)
