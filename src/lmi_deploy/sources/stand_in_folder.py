"""Writes a stand-in model to a folder, and is its source under the name and commit of the real model."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Final

from lmi_deploy.domain.gathered_facts import FileEntry, ModelListing, TensorHeader
from lmi_deploy.domain.rehearsal_report import StandInModel
from lmi_deploy.sources.local_folder import LocalModel

_SEED: Final = 0
_SIGNS: Final = bytes(0x3C if number & 1 else 0xBC for number in range(256))
"""The upper byte of a bfloat16: its value is between 0.0078 and 0.031, of either sign."""
_BY_TOKEN: Final = ("model.embed_tokens", "lm_head")
_ONE: Final = b"\x80\x3f"


def write_stand_in(folder: Path, model: StandInModel, copied: Mapping[str, Path]) -> None:
    """With weights of dtype BF16. `copied`: the model's own files on this machine, by path."""
    for path, text in model.written.items():
        _parent(folder / path).write_text(text, encoding="utf-8")
    for path, source in copied.items():
        shutil.copyfile(source, _parent(folder / path))
    for path, headers in model.tensors.items():
        _write_tensors(_parent(folder / path), headers, model.unlikely)


class StandInSource(LocalModel):
    """The port Hub for one model: files of `folder`, in a listing that keeps the model's own name and commit."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def stand_in_listing(self, real: ModelListing) -> ModelListing:
        return replace(real, files=super().listing(str(self._folder), "").files)

    def folder(self, listing: ModelListing) -> Path:
        return self._folder

    def missing(self, listing: ModelListing, files: Sequence[FileEntry]) -> int:
        return 0


def _parent(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _write_tensors(path: Path, headers: Sequence[TensorHeader], unlikely: Sequence[int]) -> None:
    """The same values each time; norms are ones, so that activations neither vanish nor overflow."""
    table: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, dtype, shape in headers:
        end = offset + 2 * prod(shape)
        table[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    header = json.dumps(table).encode()
    header += b" " * (-len(header) % 8)
    values = random.Random(_SEED)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for name, _, shape in headers:
            data = _values(values, name, prod(shape))
            if name.startswith(_BY_TOKEN):
                data = _without_rows(data, unlikely, 2 * shape[-1])
            file.write(data)


def _values(values: random.Random, name: str, count: int) -> bytes:
    if "norm" in name:
        return _ONE * count
    data = bytearray(2 * count)
    data[0::2] = values.randbytes(count)
    data[1::2] = values.randbytes(count).translate(_SIGNS)
    return bytes(data)


def _without_rows(data: bytes, rows: Sequence[int], size: int) -> bytes:
    """Zeros in the rows of `size` bytes."""
    changed = bytearray(data)
    for row in rows:
        if (row + 1) * size <= len(changed):
            changed[row * size : (row + 1) * size] = bytes(size)
    return bytes(changed)
