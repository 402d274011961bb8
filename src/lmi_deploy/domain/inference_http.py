"""A question to a deployment and its answer, in the tool's own words; an engine's codec knows the wire form."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceRequest:
    """A prompt (or several), a chat when `system` is set or `chat` asks for one, or a whole body as it is."""

    prompt: str = ""
    system: str = ""
    chat: bool = True
    stream: bool = False
    parameters: dict[str, Any] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """What goes to the invocation path."""

    body: bytes
    headers: tuple[tuple[str, str], ...]
    stream: bool = False
    """Whether the answer is wanted in pieces: SageMaker has a call of its own for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseHead:
    """The first thing that comes back."""

    status: int
    reason: str
    headers: tuple[tuple[str, str], ...]

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name.lower()), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A decoded part of an answer: text to show, tokens that it stands for, and how generation ended."""

    text: str = ""
    tokens: int = 0
    finish: str = ""
    error: str = ""
