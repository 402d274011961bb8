"""Published models on the local Hub: config.json and the headers of their weights, generated from figures;
no weights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, Final

from lmi_deploy.hub.repositories import Blob
from lmi_deploy.sizing.architecture import read_architecture
from lmi_deploy.sizing.quantization import stored_quantization
from lmi_deploy.sizing.synthesized_tensors import tensors_of
from lmi_deploy.sizing.tensors import CannotTell, Tensor
from tests.support.hub import LocalHub
from tests.support.hub.repos import Repo, blob_of
from tools.recognition_score import read_models

MODELS: Final[dict[str, dict[str, Any]]] = read_models()["models"]
_SHAPED: Final = {8: "F8_E4M3", 16: "BF16"}
_FIRST_READ: Final = 64 * 1024
_NOMINAL: Final = {"google/gemma-4-26B-A4B": 26_000_000_000}
"""Parameters by the name, where neither a figure nor the shape gives them."""


def publish_model(hub: LocalHub, name: str) -> None:
    """A repository with complete headers and no data behind them."""
    model = MODELS[name]
    first, size = header_of(name, model)
    sha256 = hashlib.sha256(name.encode()).hexdigest()
    weights = Blob(size=size, git_oid=sha256[:40], sha256=sha256, source=first)
    config = blob_of("config.json", json.dumps(model["config"]).encode())
    tokenizer = blob_of("tokenizer.json", b"{}")
    files = {"config.json": config, "tokenizer.json": tokenizer, "model.safetensors": weights}
    if not model["config"]:
        del files["config.json"]
    hub.state.models.add(Repo(name)).publish(files)


def header_of(name: str, model: dict[str, Any]) -> tuple[bytes, int]:
    """The header of one file with all its weights, as far as a client reads it, and the size of that file."""
    return _header(list(_tensors(name, model)))


def _tensors(name: str, model: dict[str, Any]) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    try:
        shape = read_architecture(model["config"])
        found = tensors_of(shape, stored_quantization(model["config"]))
    except CannotTell:
        yield "model.weight", "BF16", (model.get("parameters") or _NOMINAL.get(name, 100_000_000),)
        return
    for tensor in found:
        for number in range(tensor.count):
            suffix = f".{number}" if tensor.count > 1 else ""
            yield tensor.name.replace("experts.N", f"experts.{number}") + suffix, *_form(tensor)


def _form(tensor: Tensor) -> tuple[str, tuple[int, ...]]:
    """dtype and shape of one of `count` tensors, without the scales of its blocks; four-bit items are
    packed."""
    dtype = _SHAPED.get(int(tensor.item_bits))
    if dtype is not None:
        return dtype, tensor.shape
    rows = tensor.shape[0]
    return "U8", (rows, tensor.size // tensor.count // rows)


def _header(tensors: list[tuple[str, str, tuple[int, ...]]]) -> tuple[bytes, int]:
    table, at = {}, 0
    for name, dtype, shape in tensors:
        size = 2 if dtype == "BF16" else 1
        for side in shape:
            size *= side
        table[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(table).encode()
    size = 8 + len(text) + at
    # A client requests the first 64 KiB, before it knows the header's length.
    return (len(text).to_bytes(8, "little") + text).ljust(min(size, _FIRST_READ), b"\0"), size
