"""InvokeEndpointAsync: read the input from S3, write the container's response to S3."""

from __future__ import annotations

import asyncio
import json
import tempfile
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from aiohttp import web

from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.runtime.invocation import RuntimeApi
from lmi_deploy.emulator.runtime.invocation_request import Invocation
from lmi_deploy.emulator.sagemaker.containers import parts_of
from lmi_deploy.emulator.sagemaker.resources import ENDPOINT
from lmi_deploy.emulator.wire.errors import ApiError

DEFAULT_LIMIT: Final = 900.0


@dataclass(slots=True)
class Queue:
    """Requests that are answered later; unanswered ones are lost when the emulator stops, as are their containers."""

    runtime: RuntimeApi
    _jobs: set[asyncio.Task[None]] = field(default_factory=set)

    def invoke(self, region: str, requested: Invocation) -> web.Response:
        """202 at once, with the locations of the future response or failure."""
        settings = self._settings(region, requested)
        if ("InputLocation" in requested.params) == bool(requested.params.get("Body")):
            raise ApiError("ValidationError", "Exactly one of InputLocation and Body must be given.")
        name = requested.params.get("Filename") or str(uuid.uuid4())
        out = settings["OutputConfig"]
        failures = out.get("S3FailurePath") or out["S3OutputPath"]
        places = {
            "X-Amzn-SageMaker-OutputLocation": f"{out['S3OutputPath'].rstrip('/')}/{name}.out",
            "X-Amzn-SageMaker-FailureLocation": f"{failures.rstrip('/')}/{name}-error.out",
        }
        task = asyncio.create_task(self._carry_out(region, requested, *places.values()))
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

    async def _carry_out(self, region: str, requested: Invocation, out: str, failed: str) -> None:
        try:
            body = await self._body(requested)
            _, instance = self.runtime.routes.choose(region, requested.params)
            full = Invocation(requested.operation, {**requested.params, "Body": body})
            limit = float(requested.params.get("InvocationTimeoutSeconds", DEFAULT_LIMIT))
            answered = await self.runtime.exchange(instance, full, limit=limit)
        except ApiError as error:
            await self._put(failed, error.message.encode(), "text/plain")
        except OSError as exc:
            await self._put(failed, f"The input could not be read: {exc}".encode(), "text/plain")
        else:
            await self._put(out, answered.body, answered.headers.get("Content-Type", ""))

    async def _body(self, requested: Invocation) -> bytes:
        if requested.params.get("Body"):
            body: bytes = requested.params["Body"]
            return body
        bucket, key = parts_of(requested.params["InputLocation"])
        with tempfile.TemporaryDirectory(prefix="lmi-async-") as folder:
            path = Path(folder, "input")
            await asyncio.to_thread(self.runtime.context.objects.fetch, bucket, key, path)
            return path.read_bytes()

    async def _put(self, uri: str, content: bytes, kind: str) -> None:
        bucket, key = parts_of(uri)
        await asyncio.to_thread(
            self.runtime.context.objects.put,
            bucket,
            key,
            content,
            content_type=kind or "application/octet-stream",
        )
