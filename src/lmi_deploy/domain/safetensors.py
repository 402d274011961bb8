"""The header of a safetensors file, checked without reading a weight.

Layout (the format's own specification): 8 bytes little-endian header length, that many bytes of JSON, then the
tensors' bytes without gaps. The reference implementation refuses headers above 100 MB.
"""

from __future__ import annotations

import json
from typing import Any

LENGTH_BYTES = 8
MAX_HEADER = 100_000_000
_ITEM_BITS = {
    "BOOL": 8,
    "U8": 8,
    "I8": 8,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "F8_E8M0": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "I64": 64,
    "U64": 64,
    "F64": 64,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "C64": 64,
}


def header_length(first: bytes, file_size: int) -> int:
    """How many bytes the header has. Raises ValueError, in words for people, when that cannot be."""
    if len(first) < LENGTH_BYTES:
        raise ValueError(f"{file_size} bytes: too short for a safetensors file")
    length = int.from_bytes(first[:LENGTH_BYTES], "little")
    if first.startswith(b"version https://git-lfs"):
        raise ValueError("a Git LFS pointer instead of the file")
    if not 2 <= length <= min(MAX_HEADER, file_size - LENGTH_BYTES):
        raise ValueError(
            f"header length {length} in a file of {file_size} bytes: not a safetensors file, or cut"
        )
    return length


def parameters(header: bytes, file_size: int) -> dict[str, int]:
    """Parameters by dtype. Raises ValueError when the header is not sane: gaps, overlaps, bytes beyond the end."""
    extents = [(name, *_extent(name, tensor)) for name, tensor in _tensors(header).items()]
    counts: dict[str, int] = {}
    end = 0
    for name, dtype, items, start, stop in sorted(extents, key=lambda size: size[3:]):
        if start != end:
            raise ValueError(f"tensor {name} starts at {start}, expected {end}")
        bits = _ITEM_BITS.get(dtype)
        if bits is not None and items * bits != (stop - start) * 8:
            raise ValueError(f"tensor {name}: {items} x {dtype} in {stop - start} bytes")
        counts[dtype] = counts.get(dtype, 0) + items
        end = stop
    body = file_size - LENGTH_BYTES - len(header)
    if end != body:
        raise ValueError(f"tensors need {end} bytes, the file has {body}: cut or padded")
    return counts


def tensor_headers(header: bytes) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
    """Name, dtype and shape of each tensor, of a header that `parameters` found sane."""
    return tuple((name, t["dtype"], tuple(t["shape"])) for name, t in _tensors(header).items())


def _tensors(header: bytes) -> dict[str, Any]:
    try:
        value = json.loads(header)
    except (ValueError, RecursionError):
        raise ValueError("the header is not JSON") from None
    if not isinstance(value, dict):
        raise ValueError("the header is not a JSON object")
    return {name: tensor for name, tensor in value.items() if name != "__metadata__"}


def _extent(name: str, tensor: Any) -> tuple[str, int, int, int]:
    try:
        dtype, shape, (start, stop) = tensor["dtype"], tensor["shape"], tensor["data_offsets"]
        items = 1
        for size in shape:
            items = _natural(items * _natural(size))
        if _natural(start) > _natural(stop):
            raise ValueError(start)
        return str(dtype), items, start, stop
    except (TypeError, KeyError, ValueError):
        raise ValueError(f"tensor {name}: invalid dtype, shape or data_offsets") from None


def _natural(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**64:
        raise ValueError(value)
    return value
