"""What is known of a model's weights without a download: its config.json and the headers of its safetensors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

from lmi_deploy.domain.gathered_facts import Facts, FileEntry, ModelListing, TensorHeader
from lmi_deploy.planning.file_selection import INDEX
from lmi_deploy.ports.hub import Hub
from lmi_deploy.ports.source import ListsSizes
from lmi_deploy.sizing.fit_assessment import Checkpoint
from lmi_deploy.sizing.tensors import Tensor, merge_experts
from lmi_deploy.workflows.gather_facts import Unreadable, parsed_json, read_header

_PICKLE = re.compile(r"(pytorch_model.*\.bin|.*\.pt|.*\.pth)")
_BESIDE = re.compile(r"(consolidated|adapter_|optimizer|training_args)")
"""Files that engines do not load beside `model*.safetensors`: another copy of the weights, adapters, training."""
_AT_ONCE: Final = 8


def read_checkpoint(model_id: str, revision: str, hub: Hub) -> Checkpoint:
    """NotFound and AccessError if there is no such model; `trouble` describes errors in its files."""
    return checkpoint_of(hub, listing_without_hashes(model_id, revision, hub))


def listing_without_hashes(model_id: str, revision: str, hub: Hub) -> ModelListing:
    """Files and sizes; a source that would read every byte to hash it leaves the hashes out."""
    return hub.list_sizes(model_id) if isinstance(hub, ListsSizes) else hub.listing(model_id, revision)


def checkpoint_of(hub: Hub, listing: ModelListing) -> Checkpoint:
    """Never raises for errors in files: `trouble` describes them."""
    files = {entry.path: entry for entry in listing.files if "/" not in entry.path}
    try:
        return _checkpoint(hub, listing, files)
    except Unreadable as reason:
        return Checkpoint(table={}, trouble=str(reason), files=tuple(files))


def _checkpoint(hub: Hub, listing: ModelListing, files: Mapping[str, FileEntry]) -> Checkpoint:
    table = _table(hub, listing, "config.json")
    if not table and "adapter_config.json" in files:
        base = _table(hub, listing, "adapter_config.json").get("base_model_name_or_path")
        raise Unreadable(f"this is an adapter: run `lmi fit` for its base model{f' {base}' if base else ''}")
    if "quantization_config" not in table and "hf_quant_config.json" in files:
        found = _table(hub, listing, "hf_quant_config.json").get("quantization")
        if isinstance(found, Mapping):
            table = {**table, "quantization_config": {"quant_method": "modelopt", **found}}
    chosen = _weight_files(files, _table(hub, listing, INDEX))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        headers = list(pool.map(lambda entry: _tensors(hub, listing, entry), chosen))
    pickles = [] if chosen else [entry.size for path, entry in files.items() if _PICKLE.fullmatch(path)]
    return Checkpoint(
        table=table,
        tensors=merge_experts(tensor for tensors in headers for tensor in tensors),
        pickles=pickles,
        gguf=not chosen and not pickles and any(path.endswith(".gguf") for path in files),
        files=tuple(files),
    )


def gathered_checkpoint(facts: Facts) -> Checkpoint:
    """The same from the facts of a plan."""
    files = {entry.path: entry for entry in facts.listing.files if "/" not in entry.path}
    known = Checkpoint(table=facts.config, files=tuple(files))
    if facts.tensors is None:
        pickles = [entry.size for path, entry in files.items() if _PICKLE.fullmatch(path)]
        return replace(known, pickles=pickles, gguf=any(path.endswith(".gguf") for path in files))
    try:
        chosen = _weight_files(files, {"weight_map": {name: name for name in facts.shards}})
    except Unreadable as reason:
        return replace(known, trouble=str(reason))
    headers = (facts.tensors.headers.get(entry.path, ()) for entry in chosen)
    return replace(known, tensors=merge_experts(tensor for found in headers for tensor in _as_tensors(found)))


def _as_tensors(headers: Sequence[TensorHeader]) -> list[Tensor]:
    return [Tensor(name, dtype, shape) for name, dtype, shape in headers]


def _weight_files(files: Mapping[str, FileEntry], index: Mapping[str, Any]) -> Sequence[FileEntry]:
    """Those that the index names; without an index all but second copies."""
    named = index.get("weight_map")
    if isinstance(named, Mapping) and named:
        shards = sorted({str(name) for name in named.values()})
        lacking = [name for name in shards if name not in files]
        if lacking:
            raise Unreadable(
                f"{INDEX} lists {len(shards)} files, {len(lacking)} are missing: {lacking[0]}"
                + (" and others" if len(lacking) > 1 else "")
            )
        return [files[name] for name in shards]
    every = [entry for path, entry in files.items() if path.endswith(".safetensors")]
    main = [entry for entry in every if not _BESIDE.match(entry.path)]
    return main or [entry for entry in every if entry.path.startswith("consolidated")]


def _tensors(hub: Hub, listing: ModelListing, entry: FileEntry) -> Sequence[Tensor]:
    try:
        return _as_tensors(read_header(hub, listing, entry)[1])
    except ValueError as reason:
        raise Unreadable(f"{entry.path}: {reason}") from None


def _table(hub: Hub, listing: ModelListing, path: str) -> dict[str, Any]:
    value = parsed_json(hub, listing, path)
    if not isinstance(value, dict):
        raise Unreadable(f"{path} is not a JSON object")
    return value
