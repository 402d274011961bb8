"""InvokeEndpointAsync: read the input from S3, write the container's response to S3, both with the model's role.

Sources: SageMaker API reference, InvokeEndpointAsync, AsyncInferenceConfig; developer guide, "Asynchronous inference":
queue, time-outs, 1 GB, the role's permissions; "Alarms and logs for tracking metrics from asynchronous endpoints" (the
metrics of the queue). AWS does not document the names of the objects, the text of a failure,
or what it does if the role may not write: here, nothing is written. Notifications are not sent.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import uuid
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from aiohttp import web

from lmi_deploy.emulator.hosting.instances import InstanceLocation
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.runtime.data_capture import role_of
from lmi_deploy.emulator.runtime.invocation import RuntimeApi
from lmi_deploy.emulator.runtime.invocation_request import Invocation
from lmi_deploy.emulator.sagemaker.containers import parts_of
from lmi_deploy.emulator.sagemaker.resources import ENDPOINT
from lmi_deploy.emulator.services.metrics import Point
from lmi_deploy.emulator.wire.errors import ApiError

DEFAULT_LIMIT: Final = 900.0
DEFAULT_AGE: Final = 21_600.0
MOST_BYTES: Final = 1_000_000_000
CAPACITY_INTERVAL: Final = 5.0
"""Seconds of the emulated clock between two looks whether an instance runs."""
USUAL_CONCURRENCY: Final = 4
"""Of an instance; without a setting AWS chooses an optimal value."""
EXPIRED: Final = "The request has expired: it was in the queue for more than RequestTTLSeconds."


@dataclass(slots=True)
class Queue:
    """Requests that are answered later; unanswered ones are lost when the emulator stops, as are their containers."""

    runtime: RuntimeApi
    _jobs: set[asyncio.Task[None]] = field(default_factory=set)
    _waiting: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Of each region and endpoint: requests that are queued or in progress."""
    _slots: dict[tuple[str, str, int], asyncio.Semaphore] = field(default_factory=dict)
    """Of each endpoint: how many of its requests its containers get at once."""

    def invoke(self, region: str, requested: Invocation) -> web.Response:
        """202 at once, with the locations of the future response or failure."""
        settings = self._settings(region, requested)
        if ("InputLocation" in requested.params) == bool(requested.params.get("Body")):
            raise ApiError("ValidationError", "Exactly one of InputLocation and Body must be given.")
        name = requested.params.get("Filename") or str(uuid.uuid4())
        out, extension = (
            settings["OutputConfig"],
            requested.params.get("S3OutputPathExtension", "").strip("/"),
        )
        failures = out.get("S3FailurePath") or out["S3OutputPath"]
        output = "/".join(filter(None, (out["S3OutputPath"].rstrip("/"), extension)))
        places = {
            "X-Amzn-SageMaker-OutputLocation": f"{output}/{name}.out",
            "X-Amzn-SageMaker-FailureLocation": f"{failures.rstrip('/')}/{name}-error.out",
        }
        task = asyncio.create_task(self._queued(region, requested, *places.values()))
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)
        inference = requested.params.get("InferenceId") or str(uuid.uuid4())
        return web.Response(
            status=202,
            body=json.dumps({"InferenceId": inference}).encode(),
            headers={**places, "Content-Type": "application/json", "x-amzn-RequestId": str(uuid.uuid4())},
        )

    async def close(self) -> None:
        jobs = list(self._jobs)
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)

    def _settings(self, region: str, requested: Invocation) -> Row:
        self.runtime.routes.choose(region, requested.params)
        row = self.runtime.context.table(ENDPOINT.table, region).get(requested.endpoint)
        settings: Row | None = row["serving"]["async"] if row is not None else None
        if settings is None:
            raise ApiError(
                "ValidationError", f"Endpoint {requested.endpoint} is not an asynchronous endpoint."
            )
        return settings

    async def _queued(self, region: str, requested: Invocation, out: str, failed: str) -> None:
        self._waiting[region, requested.endpoint] += 1
        try:
            await self._carried_out(region, requested, out, failed)
        finally:
            self._waiting[region, requested.endpoint] -= 1

    async def _carried_out(self, region: str, requested: Invocation, out: str, failed: str) -> None:
        clock = self.runtime.context.clock
        accepted = clock.now()
        async with self._slot(region, requested.endpoint):
            while not self._instances(region, requested.endpoint):
                await clock.sleep(CAPACITY_INTERVAL)
            age = float(requested.params.get("RequestTTLSeconds", DEFAULT_AGE))
            if clock.now() - accepted > age:
                await self._put(region, requested, failed, EXPIRED.encode())
            else:
                await self._carry_out(region, requested, out, failed)

    def _instances(self, region: str, endpoint: str) -> int:
        """How many may take its requests; one of an endpoint that was deleted, whose requests then fail."""
        row = self.runtime.context.table(ENDPOINT.table, region).get(endpoint)
        serving = (row or {}).get("serving")
        return sum(variant["count"] for variant in serving["variants"]) if serving else 1

    def measure(self, at: float) -> None:
        """The metrics of each asynchronous endpoint, which SageMaker measures whether or not it has requests. Of no
        instance the backlog per instance is not documented: here it is that of one.
        """
        context = self.runtime.context
        for region in context.store.regions(ENDPOINT.table):
            for name, row in context.table(ENDPOINT.table, region).rows():
                if not (row.get("serving") or {}).get("async"):
                    continue
                backlog, count = float(self._waiting[region, name]), self._instances(region, name)
                for metric, value in (
                    ("ApproximateBacklogSize", backlog),
                    ("ApproximateBacklogSizePerInstance", backlog / max(count, 1)),
                    ("HasBacklogWithoutCapacity", float(backlog > 0 and count == 0)),
                ):
                    place = (region, "AWS/SageMaker", metric, (("EndpointName", name),))
                    context.metrics.put(place, Point(at, value, "None"))

    def _slot(self, region: str, endpoint: str) -> asyncio.Semaphore:
        row = self.runtime.context.table(ENDPOINT.table, region).get(endpoint)
        settings = ((row or {}).get("serving") or {}).get("async") or {}
        client = settings.get("ClientConfig") or {}
        most = int(client.get("MaxConcurrentInvocationsPerInstance", USUAL_CONCURRENCY))
        return self._slots.setdefault((region, endpoint, most), asyncio.Semaphore(most))

    async def _carry_out(self, region: str, requested: Invocation, out: str, failed: str) -> None:
        try:
            _, instance = self.runtime.routes.choose(region, requested.params)
            body = await self._body(instance.place, requested)
            full = Invocation(requested.operation, {**requested.params, "Body": body})
            limit = float(requested.params.get("InvocationTimeoutSeconds", DEFAULT_LIMIT))
            answered = await self.runtime.exchange(instance, full, limit=limit, most=MOST_BYTES)
        except ApiError as error:
            await self._put(region, requested, failed, error.message.encode())
        except OSError as exc:
            await self._put(region, requested, failed, f"The input could not be read: {exc}".encode())
        else:
            kind = answered.headers.get("Content-Type", "")
            await self._put(region, requested, out, answered.body, kind=kind)

    async def _body(self, place: InstanceLocation, requested: Invocation) -> bytes:
        if requested.params.get("Body"):
            body: bytes = requested.params["Body"]
            return body
        bucket, key = parts_of(requested.params["InputLocation"])
        arn = f"arn:aws:s3:::{bucket}/{key}"
        if not self.runtime.context.roles.allows(role_of(self.runtime.context, place), "s3:GetObject", arn):
            raise OSError(f"the execution role may not s3:GetObject on {arn}")
        with tempfile.TemporaryDirectory(prefix="lmi-async-") as folder:
            path = Path(folder, "input")
            await asyncio.to_thread(self.runtime.context.objects.fetch, bucket, key, path)
            return path.read_bytes()

    async def _put(
        self, region: str, requested: Invocation, uri: str, content: bytes, *, kind: str = "text/plain"
    ) -> None:
        context = self.runtime.context
        _, instance = self.runtime.routes.choose(region, requested.params)
        bucket, key = parts_of(uri)
        role = role_of(context, instance.place)
        if context.roles.allows(role, "s3:PutObject", f"arn:aws:s3:::{bucket}/{key}"):
            kind = kind or "application/octet-stream"
            await asyncio.to_thread(context.objects.put, bucket, key, content, content_type=kind)
