"""A request to an asynchronous endpoint: accepted at once, answered later, in S3."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

LONGEST_PROCESSING: Final = 3600
LONGEST_QUEUE: Final = 21_600
SHORTEST_QUEUE: Final = 60
"""Seconds, as the three that follow: SageMaker API reference, InvokeEndpointAsync."""
USUAL_PROCESSING: Final = 900
MOST_BYTES: Final = 1_000_000_000
"""Of a request. SageMaker developer guide, "Asynchronous inference"."""
_ID: Final = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncLimits:
    """Seconds."""

    processing: int = USUAL_PROCESSING
    """In the container."""
    queue: int = LONGEST_QUEUE
    """Until the container gets it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncCall:
    """What SageMaker is asked: to read the body at `input`."""

    inference_id: str
    input: str
    """s3:// address."""
    headers: tuple[tuple[str, str], ...]
    limits: AsyncLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncLocations:
    """The s3:// addresses that SageMaker named: one of the two objects will exist."""

    output: str
    failure: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncTicket:
    """An accepted request, as it is stored in the deployment's bucket."""

    inference_id: str
    output: str
    failure: str
    submitted: str
    """ISO 8601, UTC."""
    limit: int
    """Seconds after which SageMaker has given up: those in the queue and those of the processing."""
    prompt: str = ""
    """Some servers repeat it in the response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncResult:
    status: Literal["pending", "done", "failed"]
    body: bytes = b""
    """The response, or the text of the failure."""


def is_inference_id(text: str) -> bool:
    """Whether it has the form of those that lmi gives."""
    return _ID.fullmatch(text) is not None
