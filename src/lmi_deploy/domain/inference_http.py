"""An inference request and its response, independent of the engine; an engine's codec knows the wire form."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceRequest:
    """A prompt (or several), a chat if `system` or `chat` is set, or a raw body."""

    prompt: str = ""
    system: str = ""
    chat: bool = True
    stream: bool = False
    parameters: dict[str, Any] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSpec:
    """The body of the request; the response must be a success, not empty, and contain `expect`. `prompt` is for
    people.
    """

    prompt: str
    body: str
    content_type: str
    expect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """The request that is sent to the invocation path."""

    body: bytes
    headers: tuple[tuple[str, str], ...]
    stream: bool = False
    """Whether the response is requested in pieces: SageMaker has a separate operation for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseHead:
    """The first part of a response."""

    status: int
    reason: str
    headers: tuple[tuple[str, str], ...]

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name.lower()), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A decoded part of a response: text to show, its number of tokens, and why generation stopped."""

    text: str = ""
    tokens: int = 0
    finish: str = ""
    error: str = ""
