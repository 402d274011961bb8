"""What a model answers: the whole text, or pieces of it as they arrive."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Self

from lmi_deploy.api.session import explained
from lmi_deploy.domain.inference_http import Chunk
from lmi_deploy.workflows.invoke import ResponseMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`metrics` has the latency, the number of tokens and why the answer ended."""

    text: str
    metrics: ResponseMetrics

    def __str__(self) -> str:
        return self.text


class ResponseStream:
    """An iterator of text. Leaving it early closes the connection, by `close()` or at the end of a `with`."""

    def __init__(self, chunks: Iterator[Chunk], metrics: ResponseMetrics) -> None:
        self._chunks, self.metrics = chunks, metrics

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        with explained():
            return next(chunk.text for chunk in self._chunks if chunk.text)

    def close(self) -> None:
        if isinstance(self._chunks, Generator):
            self._chunks.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()
