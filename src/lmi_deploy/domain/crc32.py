"""CRC32 as S3 writes it (base64, big-endian), and the CRC32 of two joined texts, computed from theirs alone.

Computed by zlib-ng with the processor's own instructions: an eighth of the time of most builds of zlib, and every
byte of a model is hashed here. Where there is no wheel of it zlib returns the same number.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from functools import lru_cache

try:
    from zlib_ng.zlib_ng import crc32
except ImportError:
    from zlib import crc32

__all__ = ["crc32", "crc32_joined", "crc32_number", "crc32_of", "crc32_text"]

_POLYNOMIAL = 0xEDB88320


def crc32_text(value: int) -> str:
    """A CRC32 as S3 shows it."""
    return base64.b64encode(value.to_bytes(4, "big")).decode("ascii")


def crc32_number(text: str) -> int:
    """Parse the output of `crc32_text`; ValueError if it is not a CRC32."""
    raw = base64.b64decode(text, validate=True)
    if len(raw) != 4:
        raise ValueError(f"{text}: not a CRC32")
    return int.from_bytes(raw, "big")


def crc32_of(content: bytes | bytearray | memoryview) -> str:
    return crc32_text(crc32(content))


def crc32_joined(chunks: Iterable[tuple[str, int]]) -> str:
    """The CRC32 of a whole from the CRC32 and the length of its pieces, in order."""
    total = 0
    for text, length in chunks:
        total = _append(total, crc32_number(text), length)
    return crc32_text(total)


def _append(first: int, second: int, length: int) -> int:
    # Appending n zero bytes multiplies by x^(8n) in GF(2)[x] modulo the polynomial: squared and multiplied.
    return _multiply(_power_of_x(8 * length), first) ^ second


@lru_cache(maxsize=64)  # every part of a file has one of two lengths
def _power_of_x(exponent: int) -> int:
    power, square = 1 << 31, 1 << 30
    while exponent:
        if exponent & 1:
            power = _multiply(square, power)
        square = _multiply(square, square)
        exponent >>= 1
    return power


def _multiply(a: int, b: int) -> int:
    """In reflected order: bit 31 is the coefficient of x^0."""
    product = 0
    while a:
        if a & (1 << 31):
            product ^= b
        a = (a << 1) & 0xFFFFFFFF
        b = (b >> 1) ^ _POLYNOMIAL if b & 1 else b >> 1
    return product
