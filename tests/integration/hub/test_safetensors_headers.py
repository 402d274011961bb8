"""The requests of `lmi fit` to the Hub: config.json and the safetensors headers, in ranges, no weights."""

from __future__ import annotations

import json
from pathlib import Path

from lmi_deploy.sizing.devices import named_devices
from lmi_deploy.sizing.fit_assessment import assess
from lmi_deploy.sizing.sizing_request import SizingRequest
from lmi_deploy.workflows.safetensors_headers import read_checkpoint
from tests.support.hub import serve_hub
from tests.support.hub_client import HubClient
from tests.support.model_shapes import LLAMA_8B

ROWS = 400_000
INDEX = "model.safetensors.index.json"


def shard(name: str) -> bytes:
    tensor = {"dtype": "BF16", "shape": [ROWS, 4], "data_offsets": [0, 8 * ROWS]}
    header = json.dumps({name: tensor}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(8 * ROWS)


def test_headers_are_read_in_ranges_without_downloading_weights(tmp_path: Path) -> None:
    shards = {f"model-{n}.safetensors": shard(f"model.layers.{n}.mlp.up_proj.weight") for n in range(6)}
    index = {"weight_map": {f"model.layers.{n}.mlp.up_proj.weight": name for n, name in enumerate(shards)}}
    files = {
        **shards,
        "consolidated.safetensors": shard("layers.0.w1.weight"),
        "config.json": json.dumps(LLAMA_8B).encode(),
        INDEX: json.dumps(index).encode(),
    }
    with serve_hub({"org/m": files}) as hub:
        client = HubClient(hub, tmp_path)
        found = read_checkpoint("org/m", "main", client.adapter)
        requests = [entry for entry in hub.log.all() if entry.is_body and entry.path.endswith(".safetensors")]
        sent = sum(entry.sent for entry in hub.log.all() if entry.is_body)
    assert found.trouble == ""
    assert sorted(tensor.items for tensor in found.tensors) == [4 * ROWS] * 6
    assert all(entry.range for entry in requests)
    assert not any("consolidated" in entry.path for entry in requests)
    assert sent < len(shards) * 70_000 + 10_000
    assert not list(tmp_path.rglob("*.safetensors"))
    assert assess(found, SizingRequest(context=128), named_devices("T4", 1)).verdict == "fits"
