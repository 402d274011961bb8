"""Requests to an asynchronous endpoint: input and response are objects in S3.

Where a response will be is stored in the deployment's bucket as soon as SageMaker has accepted the request, so that
any machine can fetch it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from lmi_deploy.domain.async_requests import (
    AsyncCall,
    AsyncLimits,
    AsyncResult,
    AsyncTicket,
    is_inference_id,
)
from lmi_deploy.domain.dataclass_json import dump, load
from lmi_deploy.domain.inference_http import HttpRequest, ResponseHead
from lmi_deploy.domain.s3_address import SCHEME
from lmi_deploy.domain.sagemaker.async_layout import async_prefix, input_key, request_key
from lmi_deploy.errors import LmiError, NotFound, UsageRefused
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.hosting import Hosting
from lmi_deploy.ports.object_store import ObjectStore

INTERVALS: Final = (0.5, 1.0, 2.0, 5.0)
"""Seconds between two looks; the last one repeats."""
_SLACK: Final = 300
"""Seconds after its limit in which SageMaker's own report of an expired request may still come."""


@dataclass(frozen=True, slots=True)
class AsyncRequests:
    """Of one deployment. `bucket` opens another bucket than its own."""

    name: str
    hosting: Hosting
    store: ObjectStore
    bucket: Callable[[str], ObjectStore]
    clock: Clock

    def submit(self, request: HttpRequest, limits: AsyncLimits, *, prompt: str = "") -> AsyncTicket:
        """Upload and enqueue it, and store where the response will be."""
        ticket = replace(self._enqueue(request, limits), prompt=prompt)
        self.store.put(request_key(self.name, ticket.inference_id), json.dumps(dump(ticket)).encode())
        return ticket

    def _enqueue(self, request: HttpRequest, limits: AsyncLimits) -> AsyncTicket:
        inference_id = uuid.uuid4().hex
        key = input_key(self.name, inference_id)
        self.store.put(key, request.body)
        call = AsyncCall(
            inference_id=inference_id,
            input=f"{SCHEME}{self.store.bucket}/{key}",
            headers=request.headers,
            limits=limits,
        )
        accepted = self.hosting.invoke_async(self.name, call)
        return AsyncTicket(
            inference_id=inference_id,
            output=accepted.output,
            failure=accepted.failure,
            submitted=self.clock.now().isoformat(),
            limit=limits.queue + limits.processing,
        )

    def ticket(self, inference_id: str) -> AsyncTicket:
        """UsageRefused, NotFound if it names no request of this deployment."""
        if not is_inference_id(inference_id):
            raise UsageRefused(
                f"--result {inference_id}: not an inference id: 32 hex digits",
                hint="use the one that `lmi invoke --async --detach` printed",
            )
        found = self.store.get(request_key(self.name, inference_id))
        if found is None:
            raise NotFound(
                f"{self.name}: no request {inference_id}",
                hint="check the id and the deployment; `lmi down` deletes the requests of a deployment",
            )
        return load(AsyncTicket, json.loads(found[0]))

    def result(self, ticket: AsyncTicket) -> AsyncResult:
        """A request has one of the two objects, or none yet."""
        for status, address in (("done", ticket.output), ("failed", ticket.failure)):
            body = self._read(address)
            if body is not None:
                return AsyncResult(status=status, body=body)  # type: ignore[arg-type]
        given_up = datetime.fromisoformat(ticket.submitted) + timedelta(seconds=ticket.limit + _SLACK)
        if self.clock.now() > given_up:
            why = f"SageMaker wrote no response within {ticket.limit:,} s, so the request has expired"
            return AsyncResult(status="failed", body=why.encode())
        return AsyncResult(status="pending")

    def has_instances(self) -> bool:
        """True as well if that may not be read: who may only send requests."""
        try:
            endpoint = self.hosting.endpoint(self.name)
        except LmiError:
            return True
        return endpoint is None or endpoint.count > 0

    def exchange(self, request: HttpRequest) -> Iterator[ResponseHead | bytes]:
        """Submit it, wait, and leave nothing of it in the deployment's bucket: the probe."""
        ticket = self._enqueue(request, AsyncLimits())
        result = self._awaited(ticket)
        self._forget(ticket)
        failed = result.status == "failed"
        yield ResponseHead(status=500 if failed else 200, reason="failed" if failed else "OK", headers=())
        yield result.body

    def _awaited(self, ticket: AsyncTicket) -> AsyncResult:
        tries = 0
        while (result := self.result(ticket)).status == "pending":
            self.clock.sleep(INTERVALS[min(tries, len(INTERVALS) - 1)])
            tries += 1
        return result

    def _forget(self, ticket: AsyncTicket) -> None:
        own = f"{SCHEME}{self.store.bucket}/{async_prefix(self.name)}"
        written = [
            address.removeprefix(f"{SCHEME}{self.store.bucket}/")
            for address in (ticket.output, ticket.failure)
            if address.startswith(own)
        ]
        self.store.delete([input_key(self.name, ticket.inference_id), *written])

    def _read(self, address: str) -> bytes | None:
        bucket, _, key = address.removeprefix(SCHEME).partition("/")
        store = self.store if bucket == self.store.bucket else self.bucket(bucket)
        found = store.get(key)
        return found[0] if found else None


def delete_requests(store: ObjectStore, name: str) -> int:
    """Inputs and responses in the deployment's bucket; their number."""
    keys = [stored.key for stored in store.list(async_prefix(name))]
    if keys:
        store.delete(keys)
    return len(keys)
