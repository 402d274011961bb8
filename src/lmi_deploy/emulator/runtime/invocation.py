"""InvokeEndpoint and InvokeEndpointWithResponseStream: one request to a container, its answer back."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import aiohttp
from aiohttp import web

from lmi_deploy.emulator.context import World
from lmi_deploy.emulator.faults.rules import Answer, Call, Cut, Hang
from lmi_deploy.emulator.hosting.instances import Instance
from lmi_deploy.emulator.runtime import errors
from lmi_deploy.emulator.runtime.requests import Invocation, container_headers
from lmi_deploy.emulator.runtime.routes import Routes
from lmi_deploy.emulator.sagemaker.naming import ENDPOINT
from lmi_deploy.emulator.services.metrics import Metrics, Point
from lmi_deploy.emulator.wire import eventstream
from lmi_deploy.emulator.wire.errors import ApiError
from lmi_deploy.emulator.wire.responses import request_id

LIMIT: Final = 60.0
"""Seconds that a container may take for an answer."""
MAX_BYTES: Final = 6_291_456


@dataclass(frozen=True, slots=True)
class Answered:
    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True)
class Runtime:
    world: World
    routes: Routes
    metrics: Metrics
    _session: aiohttp.ClientSession | None = field(default=None, repr=False)

    async def invoke(self, region: str, asked: Invocation) -> web.Response:
        await self.routes.revived(region, asked.params)
        variant, instance = self.routes.choose(region, asked.params)
        with self._measured(instance):
            answered = await self.exchange(instance, asked)
        return web.Response(
            body=answered.body,
            headers={
                "Content-Type": answered.headers.get("Content-Type", "application/octet-stream"),
                "x-Amzn-Invoked-Production-Variant": variant,
                "x-amzn-RequestId": request_id(),
                **_custom(answered.headers),
            },
        )

    async def stream(self, region: str, asked: Invocation, request: web.Request) -> web.StreamResponse:
        """Parts as the container sends them; what goes wrong later is an event of the stream."""
        await self.routes.revived(region, asked.params)
        variant, instance = self.routes.choose(region, asked.params)
        if instance.port is None:
            return await self._stream_whole(variant, asked, request)
        async with _in_flight(instance):
            with self._measured(instance):
                answer = await self._opened(instance, asked)
            async with answer:
                response = _event_stream(variant, answer.headers)
                await response.prepare(request)
                await self._pass_on(answer, response, self._cut(instance))
        await response.write_eof()
        return response

    async def _opened(self, instance: Instance, asked: Invocation) -> aiohttp.ClientResponse:
        """The container's answer as soon as it begins; ModelError when it begins badly."""
        try:
            given = await self.world.clock.limited(LIMIT, self._struck(instance))
            if given is not None:
                raise self._refused(instance, given.status, given.body)
            answer = await self.world.clock.limited(LIMIT, self._post(instance, asked))
        except (TimeoutError, aiohttp.ClientError, OSError) as exc:
            raise self._broken(instance, exc) from exc
        if answer.status >= 300:
            async with answer:
                raise self._refused(instance, answer.status, await answer.read())
        return answer

    async def exchange(self, instance: Instance, asked: Invocation, *, limit: float = LIMIT) -> Answered:
        """The container's whole answer; ModelError for anything but a good one."""
        if instance.port is None:
            return _echo(asked)
        async with _in_flight(instance):
            try:
                answered = await self.world.clock.limited(limit, self._whole(instance, asked))
            except (TimeoutError, aiohttp.ClientError, OSError) as exc:
                raise self._broken(instance, exc) from exc
        if answered.status >= 300:
            raise self._refused(instance, answered.status, answered.body)
        if len(answered.body) > MAX_BYTES:
            raise self._refused(instance, 0, b"Response payload size exceeded maximum allowed payload size")
        return answered

    @contextlib.contextmanager
    def _measured(self, instance: Instance) -> Iterator[None]:
        """Invocations, their errors, and the model's latency in microseconds, as SageMaker measures them."""
        began, failed = time.monotonic(), 0
        try:
            yield
        except ApiError as error:
            failed = int(error.fields.get("OriginalStatusCode", 0)) or 500
            raise
        finally:
            latency = (time.monotonic() - began) * 1e6
            self._measure(instance, "Invocations", 1.0, "None")
            self._measure(instance, "InvocationsPerInstance", 1.0 / self._count(instance), "None")
            self._measure(instance, "Invocation4XXErrors", float(400 <= failed < 500), "None")
            self._measure(instance, "Invocation5XXErrors", float(failed >= 500), "None")
            self._measure(instance, "ModelLatency", latency, "Microseconds")

    def _count(self, instance: Instance) -> int:
        """The instances that the variant's invocations are spread over."""
        row = self.world.table(ENDPOINT.table, instance.place.region).get(instance.place.endpoint)
        variants = ((row or {}).get("serving") or {"variants": []})["variants"]
        counts = [held["count"] for held in variants if held["name"] == instance.place.variant]
        return max(1, *counts) if counts else 1

    def _measure(self, instance: Instance, metric: str, value: float, unit: str) -> None:
        place = instance.place
        dimensions = (("EndpointName", place.endpoint), ("VariantName", place.variant))
        name = (place.region, "AWS/SageMaker", metric, dimensions)
        self.metrics.put(name, Point(self.world.clock.now(), value, unit))

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _whole(self, instance: Instance, asked: Invocation) -> Answered:
        given = await self._struck(instance)
        if given is not None:
            return given
        async with await self._post(instance, asked) as answer:
            return Answered(answer.status, answer.headers, await answer.read())

    async def _post(self, instance: Instance, asked: Invocation) -> aiohttp.ClientResponse:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=None),
                auto_decompress=False,
                connector=aiohttp.TCPConnector(limit=0),
            )
        return await self._session.post(
            f"http://127.0.0.1:{instance.port}/invocations",
            data=asked.params["Body"],
            headers=container_headers(asked.params),
            skip_auto_headers=("Content-Type",),
        )

    async def _struck(self, instance: Instance) -> Answered | None:
        """A rule for phase `invoke`: the container is slow (`delay`, `hang`), or this is its answer."""
        rule = self.world.faults.strike(Call("HOSTING", instance.place.path("invoke")))
        if rule is None:
            return None
        await self.world.clock.lasting(rule.delay)
        match rule.do:
            case Answer(status=status, headers=headers, body=body):
                return Answered(status, headers, body.encode())
            case Hang(seconds=seconds):
                await self.world.clock.lasting(seconds)
            case _:
                pass
        return None

    def _cut(self, instance: Instance) -> int | None:
        """A rule for phase `stream`: after so many bytes the container's stream breaks."""
        rule = self.world.faults.strike(Call("HOSTING", instance.place.path("stream")))
        return rule.do.after if rule is not None and isinstance(rule.do, Cut) else None

    async def _pass_on(
        self, answer: aiohttp.ClientResponse, response: web.StreamResponse, left: int | None
    ) -> None:
        try:
            async for chunk in answer.content.iter_any():
                await response.write(eventstream.event("PayloadPart", chunk[:left]))
                if left is not None and (left := left - len(chunk)) <= 0:
                    raise aiohttp.ClientPayloadError
        except (aiohttp.ClientError, TimeoutError) as exc:
            told = (
                "The Transmission Control Protocol (TCP) connection between the client and the model was "
                f"reset or closed. ({type(exc).__name__})"
            )
            answer.close()
            fields = {"Message": told, "ErrorCode": "StreamBroken"}
            await response.write(eventstream.exception("ModelStreamError", fields))

    async def _stream_whole(
        self, variant: str, asked: Invocation, request: web.Request
    ) -> web.StreamResponse:
        echoed = _echo(asked)
        response = _event_stream(variant, echoed.headers)
        await response.prepare(request)
        await response.write(eventstream.event("PayloadPart", echoed.body))
        await response.write_eof()
        return response

    def _refused(self, instance: Instance, status: int, body: bytes) -> ApiError:
        place = instance.place
        told = body.decode("utf-8", "replace")
        return errors.model_error(
            status, told, region=place.region, endpoint=place.endpoint, account=self.world.account
        )

    def _broken(self, instance: Instance, exc: BaseException) -> ApiError:
        timed_out = isinstance(exc, TimeoutError)
        told = errors.TIMED_OUT if timed_out else errors.no_response(instance.place.endpoint)
        return self._refused(instance, 0, told.encode())


def _echo(asked: Invocation) -> Answered:
    kind = str(asked.params.get("ContentType", "application/octet-stream"))
    return Answered(200, {"Content-Type": kind}, asked.params["Body"])


def _event_stream(variant: str, headers: Mapping[str, str]) -> web.StreamResponse:
    return web.StreamResponse(
        headers={
            "Content-Type": eventstream.CONTENT_TYPE,
            "X-Amzn-SageMaker-Content-Type": headers.get("Content-Type", "application/octet-stream"),
            "x-Amzn-Invoked-Production-Variant": variant,
            "x-amzn-RequestId": request_id(),
            **_custom(headers),
        }
    )


def _custom(headers: Mapping[str, str]) -> dict[str, str]:
    name = "X-Amzn-SageMaker-Custom-Attributes"
    return {name: headers[name]} if name in headers else {}


@contextlib.asynccontextmanager
async def _in_flight(instance: Instance) -> AsyncIterator[None]:
    instance.in_flight += 1
    try:
        yield
    finally:
        instance.in_flight -= 1
