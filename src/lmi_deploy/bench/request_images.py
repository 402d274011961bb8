"""Images of requests: synthetic ones of a size, and which request gets which."""

from __future__ import annotations

import random
import re
import struct
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from lmi_deploy.bench.prompt_files import BenchRequest
from lmi_deploy.domain.inference_http import ImageFile
from lmi_deploy.errors import UsageRefused

DIFFERENT: Final = 32
"""Synthetic images of a run: with a single one a server that keeps processed images would work once."""
MOST_PIXELS: Final = 16_777_216
MOST_SIDE: Final = 16_384
_TILE: Final = 16
"""Pixels of one colour in a row and a column: the file is small beside noise, and looks alike to no encoder."""
_SIZE: Final = re.compile(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})")
_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"


def image_size(text: str) -> tuple[int, int]:
    """Of `WIDTHxHEIGHT`, in pixels. UsageRefused of anything else."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise UsageRefused(f"{text} is no size of an image", hint="write WIDTHxHEIGHT, such as 512x512")
    width, height = int(found[1]), int(found[2])
    if width * height > MOST_PIXELS or max(width, height) > MOST_SIDE:
        what = f"an image of {text} has {width * height:,} pixels"
        raise UsageRefused(what, hint=f"use at most {MOST_PIXELS:,}, and {MOST_SIDE:,} a side")
    return width, height


def synthetic_images(size: tuple[int, int], *, seed: int, count: int = DIFFERENT) -> tuple[ImageFile, ...]:
    """PNG files of coloured tiles, each another one. The same seed makes the same files."""
    chance = random.Random(f"{seed} {size}")
    return tuple(ImageFile("image/png", _png(*size, chance)) for _ in range(count))


def _png(width: int, height: int, chance: random.Random) -> bytes:
    """8 bits for each of red, green and blue; each line begins with its filter, 0: none (PNG specification, 9.2)."""
    lines = []
    for _ in range(-(-height // _TILE)):
        tiles = (chance.randbytes(3) * _TILE for _ in range(-(-width // _TILE)))
        line = b"\0" + b"".join(tiles)[: width * 3]
        lines.append(line * _TILE)
    pixels = b"".join(lines)[: height * (1 + width * 3)]
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(pixels, 6)), (b"IEND", b""))
    return _SIGNATURE + b"".join(_png_part(name, data) for name, data in parts)


def _png_part(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def with_images(
    requests: Sequence[BenchRequest], images: Sequence[ImageFile], *, each: int = 1
) -> tuple[BenchRequest, ...]:
    """`each` images for each request, in turn; requests are repeated until every image is in one. UsageRefused of a
    whole body. Servers count the tokens of images, too: a count of the prompt alone is not that of the request.
    """
    if any(one.body is not None for one in requests):
        what = "images are added to prompts, and a request has a whole body"
        raise UsageRefused(what, hint="write the images into the body, as OpenAI's `image_url`")
    count = max(len(requests), -(-len(images) // each))
    return tuple(
        replace(
            requests[number % len(requests)],
            images=tuple(images[(number * each + more) % len(images)] for more in range(each)),
            input_tokens=None,
            asked_input_tokens=None,
        )
        for number in range(count)
    )


def images_source(images: Sequence[ImageFile], each: int, kind: str) -> str:
    """For the provenance of a report."""
    size = sum(len(one.data) for one in images) / len(images) / 1000
    what = "image" if each == 1 else "images"
    return f"{each} {what} each, of {len(images)} {kind} (mean {size:,.1f} kB)"
