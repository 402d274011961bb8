"""The request of a run without one of its own: what the probe of the deployment sends. Pure."""

from __future__ import annotations

import json
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterator
from typing import Any, Final

from lmi_deploy.bench.prompt_files import BenchRequest
from lmi_deploy.bench.request_target import RequestForm, RequestTarget
from lmi_deploy.domain.inference_http import ImageFile, ProbeSpec, image_type
from lmi_deploy.errors import UsageRefused

DEFAULT_PROMPT: Final = "Write a short paragraph about the sea."
_DATA_URL: Final = ";base64,"


def probe_request(probe: ProbeSpec) -> BenchRequest:
    """Its prompt with the images of its body, to which length and parameters can be added; without a prompt the whole
    body.
    """
    if probe.prompt:
        return BenchRequest(prompt=probe.prompt, images=tuple(_images(probe.body)))
    return BenchRequest(body=probe.body.encode(), content_type=probe.content_type)


def default_request(target: RequestTarget, probe: ProbeSpec | None) -> tuple[BenchRequest, str]:
    """A prompt about the sea; the probe, if it has an image or the deployment takes no prompts. And what it is, in
    words.
    """
    general = BenchRequest(prompt=DEFAULT_PROMPT)
    if probe is None:
        return general, "one prompt"
    own = probe_request(probe)
    if own.images:
        return own, "the prompt and the image of the probe"
    try:
        target.encode(general, RequestForm(stream=False))
    except UsageRefused:
        return own, "the probe of the deployment"
    return general, "one prompt"


def _images(body: str) -> Iterator[ImageFile]:
    """Those of OpenAI's `image_url` with a data URL."""
    try:
        value = json.loads(body)
    except ValueError:
        return
    for part in _parts(value):
        source = part.get("image_url")
        url = source.get("url") if isinstance(source, dict) else None
        if not isinstance(url, str) or _DATA_URL not in url:
            continue
        try:
            data = b64decode(url.partition(_DATA_URL)[2], validate=True)
        except NotBase64:
            continue
        if (kind := image_type(data)) is not None:
            yield ImageFile(kind, data)


def _parts(value: Any) -> Iterator[dict[str, Any]]:
    turns = value.get("messages") if isinstance(value, dict) else None
    for turn in turns if isinstance(turns, list) else ():
        content = turn.get("content") if isinstance(turn, dict) else None
        yield from (part for part in (content if isinstance(content, list) else ()) if isinstance(part, dict))
