"""Collect the facts for all decisions: reads only."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from lmi_deploy.domain.gathered_facts import Facts, FileEntry, ModelListing, TensorHeader, Tensors
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.safetensors import LENGTH_BYTES, header_length, parameters, tensor_headers
from lmi_deploy.errors import IntegrityError, NotFound, Unresolvable
from lmi_deploy.planning.file_selection import INDEX
from lmi_deploy.ports.hub import Hub
from lmi_deploy.workflows.dependencies import Dependencies

_HEADER_GUESS = 64 * 1024
_JSON_LIMIT = 20_000_000
Header = tuple[dict[str, int], tuple[TensorHeader, ...]]


class Unreadable(Exception):
    """What is wrong with a file of the model, in words for people."""


def gather(recipe: Recipe, deps: Dependencies) -> Facts:
    """The model's repository and the user's own files; NotFound and AccessError name the missing one."""
    folder = Path(recipe.origin).parent
    hub = deps.hub(recipe.model_id)
    listing = hub.listing(model_location(recipe), recipe.revision)
    facts = Facts(
        listing=listing,
        config=read_json(hub, listing, "config.json"),
        tensors=tensors(hub, listing),
        shards=shards(read_json(hub, listing, INDEX)),
        model_py=_own_file(folder, recipe.handler.file, "handler.file"),
        requirements=_own_file(folder, recipe.requirements, "requirements"),
    )
    return deps.targets[recipe.endpoint.target].gather(recipe, facts)


def model_location(recipe: Recipe) -> str:
    """The model_id; a path is relative to the recipe's folder, not to the current one."""
    if recipe.model_id.startswith(("./", "../")):
        return str((Path(recipe.origin).parent / recipe.model_id).resolve())
    return recipe.model_id


def tensors(hub: Hub, listing: ModelListing) -> Tensors | None:
    """Parameters by dtype from the safetensors headers at the top of the repository; None if there are none."""
    found = [
        entry for entry in listing.files if entry.path.endswith(".safetensors") and "/" not in entry.path
    ]
    if not found:
        return None
    totals: dict[str, int] = {}
    headers: dict[str, tuple[TensorHeader, ...]] = {}
    for entry in found:
        counts, headers[entry.path] = _header(hub, listing, entry)
        for dtype, count in counts.items():
            totals[dtype] = totals.get(dtype, 0) + count
    return Tensors(parameters=totals, headers=headers)


def _header(hub: Hub, listing: ModelListing, entry: FileEntry) -> Header:
    try:
        return read_header(hub, listing, entry)
    except ValueError as reason:
        raise IntegrityError(
            f"{entry.path}: {reason}",
            hint=f"the file is broken in {listing.model_id}. Choose another revision",
        ) from None


def read_header(hub: Hub, listing: ModelListing, entry: FileEntry) -> Header:
    """Parameters by dtype, and each tensor. ValueError, in words for people, for an invalid header.

    A damaged local copy is read again from its source.
    """
    with suppress(ValueError):
        return _parsed_header(hub, listing, entry, refresh=False)
    return _parsed_header(hub, listing, entry, refresh=True)


def _parsed_header(hub: Hub, listing: ModelListing, entry: FileEntry, *, refresh: bool) -> Header:
    first = hub.read(listing, entry.path, length=min(_HEADER_GUESS, entry.size), refresh=refresh)
    end = LENGTH_BYTES + header_length(first, entry.size)
    if end > len(first):
        first += hub.read(listing, entry.path, start=len(first), length=end - len(first), refresh=refresh)
    header = first[LENGTH_BYTES:end]
    return parameters(header, entry.size), tensor_headers(header)


def read_json(hub: Hub, listing: ModelListing, path: str) -> dict[str, Any]:
    """One JSON object of the repository; empty if there is no such file, or it has another form."""
    try:
        value = parsed_json(hub, listing, path)
    except Unreadable as reason:
        raise Unresolvable(
            f"{listing.model_id}: {reason}", hint="correct the file, or choose another revision"
        ) from None
    return value if isinstance(value, dict) else {}


def parsed_json(hub: Hub, listing: ModelListing, path: str) -> Any:
    """The content of one file, empty if there is no such file; Unreadable if it is too large, or not JSON."""
    entry = next((entry for entry in listing.files if entry.path == path), None)
    if entry is None:
        return {}
    if entry.size > _JSON_LIMIT:
        raise Unreadable(f"{path} has {entry.size} bytes; lmi reads at most {_JSON_LIMIT}")
    try:
        return json.loads(hub.read(listing, path))
    except (ValueError, RecursionError):
        raise Unreadable(f"{path} is not JSON") from None


def shards(index: dict[str, Any]) -> tuple[str, ...]:
    """The files that a safetensors index names."""
    named = index.get("weight_map")
    return tuple(sorted({str(name) for name in named.values()})) if isinstance(named, dict) else ()


def _own_file(folder: Path, name: str | None, key: str) -> bytes | None:
    if name is None:
        return None
    path = folder / name
    try:
        return path.read_bytes()
    except OSError as reason:
        raise NotFound(
            f"{key}: {path}: {reason.strerror}", hint="write paths relative to the recipe's folder"
        ) from None
