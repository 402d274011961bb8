"""An inference request and its response, independent of the engine; an engine's codec knows the wire form."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from typing import Any, Final

from lmi_deploy.domain.secret import Secret
from lmi_deploy.domain.settings_digest import ADDED, digest_tag
from lmi_deploy.errors import UsageRefused

ADAPTER_HEADER: Final = "X-Amzn-SageMaker-Adapter-Identifier"
"""How a request to DJLServing names a LoRA adapter."""
VARIANT_HEADER: Final = "X-Amzn-SageMaker-Target-Variant"
"""How a request to an endpoint names one of its production variants (botocore's service model, InvokeEndpoint)."""
_IMAGE_STARTS: Final = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}


@dataclass(frozen=True, slots=True)
class ImageFile:
    """The bytes of an image file."""

    media_type: str
    data: bytes = field(repr=False)

    @property
    def as_url(self) -> str:
        return f"data:{self.media_type};base64,{b64encode(self.data).decode()}"


def image_type(data: bytes) -> str | None:
    """The media type that the first bytes of a PNG, JPEG or WebP file state; None for any other file."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for kind, start in _IMAGE_STARTS.items() if data.startswith(start)), None)


def read_image(data: bytes, where: str) -> ImageFile:
    """UsageRefused of a file that is no image."""
    media_type = image_type(data)
    if media_type is None:
        start = data[:12].hex(" ") or "nothing: the file is empty"
        raise UsageRefused(
            f"{where}: not a PNG, JPEG or WebP image: it begins with {start}",
            hint="convert it to one of these, and name that file",
        )
    return ImageFile(media_type, data)


@dataclass(frozen=True, slots=True)
class Turn:
    """A question of a conversation, and the model's answer."""

    prompt: str
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceRequest:
    """A prompt (or several), a chat if `system` or `chat` is set, or a raw body. `history` comes before the prompt."""

    prompt: str = ""
    system: str = ""
    history: tuple[Turn, ...] = ()
    images: tuple[ImageFile, ...] = ()
    adapter: str = ""
    """The name of a LoRA adapter; empty: the model itself."""
    variant: str = ""
    """Of the two production variants of an endpoint the one that answers; empty: either, by their shares."""
    chat: bool = True
    stream: bool = False
    parameters: dict[str, Any] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"


@digest_tag("ProbeSpec")
@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSpec:
    """The body of the request; the response must be a success, not empty, and contain `expect`. `prompt` is for
    people.
    """

    prompt: str
    body: str
    content_type: str
    expect: str
    adapters: tuple[str, ...] = field(default=(), metadata=ADDED)
    """The LoRA adapters that must answer the same request after the model itself."""


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
    """A decoded part of a response: text to show, its number of tokens, and why generation stopped. `input_tokens`: of
    the whole prompt, if this part counts them.
    """

    text: str = ""
    tokens: int = 0
    input_tokens: int = 0
    finish: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKeys:
    """AWS credentials as a signature needs them."""

    access_key: str
    secret_key: Secret
    token: Secret | None = None
