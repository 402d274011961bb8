"""Reads the responses of a run while its event loop has nothing else to do, and the rest after it.

JSON that is read between two requests is time in which the client does not look at its connections: it would be
measured as the server's.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

from lmi_deploy.bench.request_records import RequestRecord
from lmi_deploy.bench.request_target import EncodedRequest, RequestForm, RequestTarget
from lmi_deploy.bench.response_reading import RawResponse, ReadResponse, read_response

MOST_WAITING: Final = 256 << 20
"""Bytes of responses that may wait for the end of the run; from there on they are read whatever the loop has to do."""
_PART_BYTES: Final = 200
"""What a piece takes besides its data: objects of Python."""
_RESPONSE_BYTES: Final = 2000
_BUSY_SECONDS: Final = 0.0001
"""A turn of the event loop that takes longer had something to do."""
_PAUSE_SECONDS: Final = 0.002
_UNHURRIED: Final = 0.25
"""Until so much of it waits, most of the reading is left for the end."""
_TURN_SECONDS: Final = 0.05


class UnreadResponse(NamedTuple):
    """A response, and its request."""

    raw: RawResponse
    request: EncodedRequest
    is_warmup: bool


class ResponseReader:
    """`on_failure` is called with the record of a response whose body says that it failed."""

    def __init__(
        self,
        target: RequestTarget,
        form: RequestForm,
        on_failure: Callable[[RequestRecord], None],
        *,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._target, self._form, self._on_failure = target, form, on_failure
        self._most_waiting = most_waiting
        self._waiting: deque[tuple[UnreadResponse, int]] = deque()
        self._waiting_bytes = 0
        self._has_work = asyncio.Event()
        self._steps: Iterator[None] = iter(())
        self._unfinished: set[int] = set()
        self._has_finishes = False
        self.records: list[RequestRecord] = []

    def add(self, response: UnreadResponse) -> None:
        parts = response.raw.parts
        received = sum(len(data) for _, data in parts)
        self._waiting.append((response, received))
        self._waiting_bytes += received + _PART_BYTES * len(parts) + _RESPONSE_BYTES
        self._has_work.set()

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await self._has_work.wait()
            began = time.perf_counter()
            await asyncio.sleep(0)
            is_busy = time.perf_counter() - began > _BUSY_SECONDS
            if is_busy and self._waiting_bytes <= self._most_waiting:
                await asyncio.sleep(_PAUSE_SECONDS)
            elif not self._read_for(_BUSY_SECONDS):
                self._has_work.clear()
            elif self._waiting_bytes <= self._most_waiting * _UNHURRIED:
                await asyncio.sleep(_PAUSE_SECONDS)

    async def read_rest(self, watch: Callable[[], None]) -> None:
        """`watch` is called now and then: it can take seconds."""
        while self._read_for(_TURN_SECONDS):
            watch()
            await asyncio.sleep(0)

    def read_now(self, response: UnreadResponse) -> RequestRecord:
        """Of a response that has failed: it is short, and why it failed is asked for at once."""
        received = sum(len(data) for _, data in response.raw.parts)
        for _ in self._read(response, received):
            pass
        return self.records[-1]

    def early_ends(self) -> frozenset[int]:
        """Numbers of the records whose streams ended without a reason, where others have one."""
        return frozenset(self._unfinished if self._has_finishes else ())

    def _read_for(self, seconds: float) -> bool:
        """Whether there may be more to read."""
        until = time.perf_counter() + seconds
        while has_read := self._step():
            if time.perf_counter() >= until:
                break
        return has_read

    def _step(self) -> bool:
        """Read a bit more; whether there was anything to read."""
        for _ in self._steps:
            return True
        if not self._waiting:
            return False
        response, received = self._waiting.popleft()
        self._waiting_bytes -= received + _PART_BYTES * len(response.raw.parts) + _RESPONSE_BYTES
        self._steps = self._read(response, received)
        return True

    def _read(self, response: UnreadResponse, received: int) -> Iterator[None]:
        raw, form, found = response.raw, self._form, ReadResponse()
        for found in read_response(
            raw, partial(self._target.decoder, stream=form.stream), is_stream=form.stream
        ):
            if not found.is_complete:
                yield
        record = _record(response, found, number=len(self.records), received=received)
        self.records.append(record)
        self._has_finishes = self._has_finishes or bool(found.finish)
        if form.stream and not found.error and not found.finish:
            self._unfinished.add(record.number)
        if found.error and not raw.has_failed:
            self._on_failure(record)


def _record(response: UnreadResponse, found: ReadResponse, *, number: int, received: int) -> RequestRecord:
    raw, request = response.raw, response.request
    source = request.source
    return RequestRecord(
        scheduled=raw.scheduled,
        sent=raw.sent,
        end=raw.end,
        arrivals=tuple(found.arrivals),
        status=raw.status,
        error=found.error,
        detail=found.detail,
        truncated=found.truncated,
        input_tokens=found.input_tokens or source.input_tokens,
        input_counted_by="server" if found.input_tokens else "tokenizer" if source.input_tokens else "",
        asked_input_tokens=source.asked_input_tokens,
        output_tokens=found.tokens or None,
        asked_tokens=request.asked_tokens,
        items=source.items,
        sent_bytes=len(request.http.body),
        received_bytes=received,
        warmup=response.is_warmup,
        number=number,
    )
