"""The objects of asynchronous requests in a deployment's bucket."""

from __future__ import annotations

from typing import Final

ASYNC: Final = "async/"
FAILURES: Final = "failures/"
"""Under the output."""


def async_prefix(deployment: str) -> str:
    """The prefix of all of them: `lmi down` deletes it."""
    return f"{ASYNC}{deployment}/"


def input_key(deployment: str, inference_id: str) -> str:
    return f"{async_prefix(deployment)}input/{inference_id}"


def request_key(deployment: str, inference_id: str) -> str:
    """Where the response of a request will be: any machine can fetch it."""
    return f"{async_prefix(deployment)}requests/{inference_id}.json"


def default_output(bucket: str, deployment: str) -> str:
    return f"s3://{bucket}/{async_prefix(deployment)}output/"
