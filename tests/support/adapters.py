"""LoRA adapters of a few hundred bytes, for the models of the fake Hub."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

MODULE = "model.layers.0.self_attn.q_proj"
SHAPE: dict[str, Any] = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "num_hidden_layers": 2,
    "intermediate_size": 128,
    "vocab_size": 256,
    "torch_dtype": "bfloat16",
}
"""Of a config.json that vLLM's checks accept, for the model that is adapted and its draft model."""


def adapter_files(rank: int = 4, **config: Any) -> dict[str, bytes]:
    """A repository as PEFT writes it, with one changed module."""
    given = {"peft_type": "LORA", "r": rank, "target_modules": ["q_proj"], **config}
    return {
        "README.md": b"# Adapter\n",
        "adapter_config.json": json.dumps(given).encode(),
        "adapter_model.safetensors": _safetensors({f"base_model.model.{MODULE}.lora_A.weight": (rank, 8)}),
        "model.py": b"raise SystemExit('code of an adapter never travels')\n",
    }


def write_adapter(folder: Path, rank: int = 4, **config: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for path, content in adapter_files(rank, **config).items():
        (folder / path).write_bytes(content)


def _safetensors(shapes: dict[str, tuple[int, ...]]) -> bytes:
    header: dict[str, Any] = {}
    end = 0
    for name, (rows, columns) in ((name, (shape[0], shape[1])) for name, shape in shapes.items()):
        start, end = end, end + 4 * rows * columns
        header[name] = {"dtype": "F32", "shape": [rows, columns], "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(end)
