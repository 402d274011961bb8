"""Several requests as one message, and the split of its response."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lmi_deploy.server import error_responses
from lmi_deploy.server.workers.job_queue import Job
from lmi_deploy.server.workers.protocol import Entry, Pair, WorkerResponse

_OUTPUT = re.compile(r"batch_(\d+)\.(.*)", re.DOTALL)


def alphabetical(properties: Sequence[Pair]) -> list[Pair]:
    """The order of properties on the wire and of headers in a response: letter case ignored."""
    return sorted(properties, key=lambda pair: pair[0].lower())


def request_of(jobs: Sequence[Job], handler: str) -> tuple[list[Pair], list[Entry]]:
    """One message for all jobs; a single one travels as an ordinary request."""
    if len(jobs) == 1:
        return jobs[0].properties, jobs[0].content
    properties = [("batch_size", str(len(jobs))), ("handler", handler)]
    content: list[Entry] = []
    for number, job in enumerate(jobs):
        start = f"batch_{number:03d}."
        properties += [(start + key, value) for key, value in job.properties if key != "handler"]
        content += [(start + (key or "data"), blob) for key, blob in job.content]
    return alphabetical(properties), content


def split(response: WorkerResponse, size: int) -> list[WorkerResponse]:
    """One response per job; code, message and properties are shared. Raises `ErrorReply` when they do not match."""
    if response.code >= 300:
        return [response] * size
    if len(response.content) != size:
        found = 1 if response.streamed else len(response.content)
        raise error_responses.untranslatable(f"Batch output size mismatch, expected: {size}, actual: {found}")
    parts: list[WorkerResponse | None] = [None] * size
    for key, blob in response.content:
        if key is None:
            raise error_responses.null_key_error()
        matched = _OUTPUT.fullmatch(key)
        if matched is None or int(matched[1]) >= size:
            raise error_responses.untranslatable(f"Unexpected batch output key: {key}")
        part = WorkerResponse(
            response.code, response.message, response.properties, ((matched[2] or None, blob),)
        )
        parts[int(matched[1])] = part
    return [part or WorkerResponse(response.code, response.message, response.properties) for part in parts]
