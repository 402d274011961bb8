"""Data Capture: requests and responses of InvokeEndpoint, sampled and written to S3 as JSON Lines.

Source: SageMaker developer guide, "Capture data from real-time endpoint": the form of a line, the path of a file
(`{destination}/{endpoint}/{variant}/yyyy/mm/dd/hh/{file}.jsonl`), and base64 for content types that are not listed.
It says that files come after some minutes, and does not say how many lines are in one: here, those of a minute. A
line that the role may not write is lost, and no caller gets an error.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from lmi_deploy.emulator.context import EmulatorContext
from lmi_deploy.emulator.hosting.instances import InstanceLocation
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.runtime.invocation_request import Invocation
from lmi_deploy.emulator.sagemaker.containers import parts_of
from lmi_deploy.emulator.sagemaker.resources import ENDPOINT

INTERVAL: Final = 60.0
"""Seconds of the emulated clock that one file covers."""
_WITH_INPUT: Final = ("Input", "InputAndOutput")
_WITH_OUTPUT: Final = ("Output", "InputAndOutput")


@dataclass(slots=True)
class CaptureWriter:
    context: EmulatorContext
    _lines: dict[InstanceLocation, list[str]] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def capture(
        self, place: InstanceLocation, requested: Invocation, *, response: bytes, content_type: str
    ) -> None:
        """Keep a line for the next file, if the endpoint captures and this request is in the sample."""
        settings = self._settings(place)
        if settings is None or random.uniform(0, 100) >= settings["InitialSamplingPercentage"]:
            return
        modes = {option["CaptureMode"] for option in settings["CaptureOptions"]}
        headers = settings.get("CaptureContentTypeHeader") or {}
        captured: dict[str, Any] = {}
        if modes.intersection(_WITH_INPUT):
            kind = requested.params.get("ContentType", "application/octet-stream")
            captured["endpointInput"] = _side("INPUT", requested.params["Body"], kind, headers)
        if modes.intersection(_WITH_OUTPUT):
            captured["endpointOutput"] = _side("OUTPUT", response, content_type, headers)
        moment = datetime.fromtimestamp(self.context.clock.now(), UTC)
        metadata = {"eventId": str(uuid.uuid4()), "inferenceTime": moment.strftime("%Y-%m-%dT%H:%M:%SZ")}
        if inference := requested.params.get("InferenceId"):
            metadata["inferenceId"] = inference
        line = json.dumps({"captureData": captured, "eventMetadata": metadata, "eventVersion": "0"})
        if place not in self._lines:
            task = asyncio.create_task(self._write_later(place, settings))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self._lines.setdefault(place, []).append(line)

    async def close(self) -> None:
        """Lines that are in no file yet are lost, as are those of an instance that ends."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _settings(self, place: InstanceLocation) -> Row | None:
        row = self.context.table(ENDPOINT.table, place.region).get(place.endpoint)
        settings: Row | None = ((row or {}).get("serving") or {}).get("capture")
        return settings if settings is not None and settings.get("EnableCapture", True) else None

    async def _write_later(self, place: InstanceLocation, settings: Row) -> None:
        await self.context.clock.sleep(INTERVAL)
        lines = self._lines.pop(place)
        moment = datetime.fromtimestamp(self.context.clock.now(), UTC)
        bucket, prefix = parts_of(settings["DestinationS3Uri"])
        folder = f"{place.endpoint}/{place.variant}/{moment:%Y/%m/%d/%H}"
        name = f"{moment:%M-%S}-{moment.microsecond // 1000:03d}-{uuid.uuid4()}.jsonl"
        key = "/".join(filter(None, (prefix.strip("/"), folder, name)))
        if self.context.roles.allows(
            role_of(self.context, place), "s3:PutObject", f"arn:aws:s3:::{bucket}/{key}"
        ):
            content = "".join(f"{line}\n" for line in lines).encode()
            await asyncio.to_thread(
                self.context.objects.put, bucket, key, content, content_type="application/jsonl"
            )


def role_of(context: EmulatorContext, place: InstanceLocation) -> str:
    """ARN of the execution role of a variant's model; empty if it is gone."""
    row = context.table(ENDPOINT.table, place.region).get(place.endpoint)
    serving = (row or {}).get("serving") or {"variants": (), "shadows": ()}
    variants = (*serving["variants"], *serving["shadows"])
    roles = (
        variant["model"]["ExecutionRoleArn"]
        for variant in variants
        if variant["name"] == place.variant and variant["model"]
    )
    return next(roles, "")


def _side(mode: str, body: bytes, content_type: str, headers: Mapping[str, Any]) -> dict[str, str]:
    encoding = "BASE64"
    for form, key in (("JSON", "JsonContentTypes"), ("CSV", "CsvContentTypes")):
        if content_type.partition(";")[0].strip() in headers.get(key, ()):
            encoding = form
    data = base64.b64encode(body).decode() if encoding == "BASE64" else body.decode("utf-8", "replace")
    return {"observedContentType": content_type, "mode": mode, "data": data, "encoding": encoding}
