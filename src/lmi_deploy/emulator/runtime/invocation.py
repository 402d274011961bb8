"""InvokeEndpoint and InvokeEndpointWithResponseStream: one request to a container, and its response."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

import aiohttp
from aiohttp import web

from lmi_deploy.emulator.context import EmulatorContext
from lmi_deploy.emulator.faults.rules import Answer, Call, Cut, Hang
from lmi_deploy.emulator.hosting.instances import HostingInstance
from lmi_deploy.emulator.runtime.container_routing import Routes, ShadowTraffic
from lmi_deploy.emulator.runtime.data_capture import CaptureWriter
from lmi_deploy.emulator.runtime.inference_response import (
    InferenceResponse,
    echoed,
    event_stream,
    response_headers,
)
from lmi_deploy.emulator.runtime.invocation_metrics import InvocationMetrics
from lmi_deploy.emulator.runtime.invocation_request import Invocation
from lmi_deploy.emulator.sagemaker.resources import ENDPOINT
from lmi_deploy.emulator.wire import eventstream
from lmi_deploy.emulator.wire.errors import ApiError

LIMIT: Final = 60.0
"""Maximum seconds of a container's response."""
MAX_BYTES: Final = 6_291_456
TIMED_OUT: Final = (
    "Your invocation timed out while waiting for a response from container primary. Review the latency "
    "metrics for each container in Amazon CloudWatch, resolve the issue, and try again."
)


@dataclass(slots=True)
class RuntimeApi:
    context: EmulatorContext
    routes: Routes
    captured: CaptureWriter
    _session: aiohttp.ClientSession | None = field(default=None, repr=False)
    _busy: dict[str, HostingInstance] = field(default_factory=dict)
    """Instances with requests in progress, by id."""
    _shadows: ShadowTraffic = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._shadows = ShadowTraffic(self.routes, self._answer)

    async def invoke(self, region: str, requested: Invocation) -> web.Response:
        variant, instance = await self._real_time(region, requested)
        answered = await self._answer(instance, requested)
        return web.Response(
            body=answered.body,
            headers={
                "Content-Type": answered.kind,
                **response_headers(variant, answered.headers),
            },
        )

    async def _answer(self, instance: HostingInstance, requested: Invocation) -> InferenceResponse:
        with self._metrics.measured(instance):
            answered = await self.exchange(instance, requested)
        self.captured.capture(instance.place, requested, response=answered.body, content_type=answered.kind)
        return answered

    async def _real_time(self, region: str, requested: Invocation) -> tuple[str, HostingInstance]:
        """The instance of a request whose caller waits. Source: SageMaker developer guide, "Asynchronous inference":
        an endpoint with an AsyncInferenceConfig can only receive asynchronous invocations; the message is ours.
        """
        await self.routes.wait_for_restart(region, requested.params)
        row = self.context.table(ENDPOINT.table, region).get(requested.endpoint)
        if row is not None and (row["serving"] or {}).get("async"):
            raise ApiError(
                "ValidationError",
                f"Endpoint {requested.endpoint} is an asynchronous endpoint. Use InvokeEndpointAsync.",
            )
        chosen = self.routes.choose(region, requested.params)
        self._shadows.copy(region, requested)
        return chosen

    async def stream(self, region: str, requested: Invocation, request: web.Request) -> web.StreamResponse:
        """Parts as the container sends them; a later error is an event of the stream."""
        variant, instance = await self._real_time(region, requested)
        if instance.port is None:
            with self._metrics.measured(instance):
                echo = echoed(requested)
            response = event_stream(variant, echo.headers)
            await response.prepare(request)
            await response.write(eventstream.event("PayloadPart", echo.body))
            await response.write_eof()
            return response
        async with self._in_flight(instance):
            with self._metrics.measured(instance):
                reply = await self._opened(instance, requested)
            async with reply:
                response = event_stream(variant, reply.headers)
                await response.prepare(request)
                await self._pass_on(reply, response, self._cut(instance))
        await response.write_eof()
        return response

    async def _opened(self, instance: HostingInstance, requested: Invocation) -> aiohttp.ClientResponse:
        """The container's response as soon as it begins; ModelError if its head is an error."""
        try:
            given = await self.context.clock.limited(LIMIT, self._matching_fault(instance))
            if given is not None:
                raise self._model_error(instance, given.status, given.body.decode("utf-8", "replace"))
            response = await self.context.clock.limited(LIMIT, self._post(instance, requested))
        except (TimeoutError, aiohttp.ClientError, OSError) as exc:
            raise self._connection_error(instance, exc) from exc
        if response.status >= 300:
            async with response:
                text = (await response.read()).decode("utf-8", "replace")
                raise self._model_error(instance, response.status, text)
        return response

    async def exchange(
        self, instance: HostingInstance, requested: Invocation, *, limit: float = LIMIT, most: int = MAX_BYTES
    ) -> InferenceResponse:
        """The container's whole response; ModelError for anything but a success."""
        if instance.port is None:
            return echoed(requested)
        async with self._in_flight(instance):
            try:
                answered = await self.context.clock.limited(limit, self._read_response(instance, requested))
            except (TimeoutError, aiohttp.ClientError, OSError) as exc:
                raise self._connection_error(instance, exc) from exc
        if answered.status >= 300:
            raise self._model_error(instance, answered.status, answered.body.decode("utf-8", "replace"))
        if len(answered.body) > most:
            raise self._model_error(
                instance, 0, "Response payload size exceeded maximum allowed payload size"
            )
        return answered

    @contextlib.asynccontextmanager
    async def _in_flight(self, instance: HostingInstance) -> AsyncIterator[None]:
        instance.in_flight += 1
        self._busy[instance.id] = instance
        self._metrics.in_flight(instance)
        try:
            yield
        finally:
            instance.in_flight -= 1
            if not instance.in_flight:
                self._busy.pop(instance.id, None)

    def measure_load(self, at: float) -> None:
        """Requests that last longer than the time between two values count in each of them; `at`, components without
        requests have values, too.
        """
        for instance in self._busy.values():
            self._metrics.in_flight(instance)
        busy = {(each.place.region, each.place.component) for each in self._busy.values()}
        self._metrics.idle(busy, at)

    @property
    def _metrics(self) -> InvocationMetrics:
        return InvocationMetrics(self.context)

    async def close(self) -> None:
        await self._shadows.close()
        await self.captured.close()
        if self._session is not None:
            await self._session.close()

    async def _read_response(self, instance: HostingInstance, requested: Invocation) -> InferenceResponse:
        given = await self._matching_fault(instance)
        if given is not None:
            return given
        async with await self._post(instance, requested) as response:
            return InferenceResponse(response.status, response.headers, await response.read())

    async def _post(self, instance: HostingInstance, requested: Invocation) -> aiohttp.ClientResponse:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=None),
                auto_decompress=False,
                connector=aiohttp.TCPConnector(limit=0),
            )
        return await self._session.post(
            f"http://127.0.0.1:{instance.port}/invocations",
            data=requested.params["Body"],
            headers=self.routes.headers(instance.place.region, requested.params),
            skip_auto_headers=("Content-Type",),
        )

    async def _matching_fault(self, instance: HostingInstance) -> InferenceResponse | None:
        """A rule for phase `invoke`: the container is slow (`delay`, `hang`), or this is its response."""
        rule = self.context.faults.apply(Call("HOSTING", instance.place.path("invoke")))
        if rule is None:
            return None
        await self.context.clock.lasting(rule.delay)
        match rule.do:
            case Answer(status=status, headers=headers, body=body):
                return InferenceResponse(status, headers, body.encode())
            case Hang(seconds=seconds):
                await self.context.clock.lasting(seconds)
            case _:
                pass
        return None

    def _cut(self, instance: HostingInstance) -> int | None:
        """A rule for phase `stream`: after so many bytes the container's stream breaks."""
        rule = self.context.faults.apply(Call("HOSTING", instance.place.path("stream")))
        return rule.do.after if rule is not None and isinstance(rule.do, Cut) else None

    async def _pass_on(
        self, reply: aiohttp.ClientResponse, response: web.StreamResponse, left: int | None
    ) -> None:
        try:
            async for chunk in reply.content.iter_any():
                await response.write(eventstream.event("PayloadPart", chunk[:left]))
                if left is not None and (left := left - len(chunk)) <= 0:
                    raise aiohttp.ClientPayloadError
        except (aiohttp.ClientError, TimeoutError) as exc:
            message = (
                "The Transmission Control Protocol (TCP) connection between the client and the model was "
                f"reset or closed. ({type(exc).__name__})"
            )
            reply.close()
            fields = {"Message": message, "ErrorCode": "StreamBroken"}
            await response.write(eventstream.exception("ModelStreamError", fields))

    def _connection_error(self, instance: HostingInstance, exc: BaseException) -> ApiError:
        if isinstance(exc, TimeoutError):
            return self._model_error(instance, 0, TIMED_OUT)
        return self._model_error(
            instance,
            0,
            f"Amazon SageMaker could not get a response from the {instance.place.endpoint} endpoint. This can occur "
            "when CPU or memory utilization is high. To check your utilization, see Amazon CloudWatch. To fix this "
            "problem, use an instance type with more CPU capacity or memory.",
        )

    def _model_error(self, instance: HostingInstance, status: int, text: str) -> ApiError:
        """HTTP 424, with the container's status and words inside."""
        region, account = instance.place.region, self.context.account
        group = f"/aws/sagemaker/Endpoints/{instance.place.endpoint}"
        side = "client" if 400 <= status < 500 else "server"
        console = f"https://{region}.console.aws.amazon.com/cloudwatch/home?region={region}"
        message = (
            f'Received {side} error ({status}) from primary with message "{text}". '
            f"See {console}#logEventViewer:group={group} in account {account} for more information."
        )
        fields = {
            "Message": message,
            "OriginalStatusCode": status,
            "OriginalMessage": text,
            "LogStreamArn": f"arn:aws:logs:{region}:{account}:log-group:{group}",
        }
        return ApiError("ModelError", message, status=424, fields=fields)
