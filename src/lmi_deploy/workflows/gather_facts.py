"""Collect the facts for all decisions: reads only."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from lmi_deploy.domain.gathered_facts import (
    AdapterFacts,
    DraftFacts,
    Facts,
    FileEntry,
    ModelListing,
    TensorHeader,
    Tensors,
    in_place_listing,
)
from lmi_deploy.domain.image_build import DOCKERFILE, BuildContext
from lmi_deploy.domain.in_place_weights import InPlaceWeights
from lmi_deploy.domain.number_text import size_text
from lmi_deploy.domain.recipe_compile_keys import Compile
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.recipe_weights_keys import AdapterSource
from lmi_deploy.domain.safetensors import LENGTH_BYTES, header_length, parameters, tensor_headers
from lmi_deploy.errors import IntegrityError, NotFound, Unresolvable
from lmi_deploy.planning.additional_models import draft_source
from lmi_deploy.planning.file_selection import INDEX
from lmi_deploy.ports.hub import Hub
from lmi_deploy.ports.source import ListsVersions
from lmi_deploy.workflows.dependencies import Dependencies

_HEADER_GUESS = 64 * 1024
_JSON_LIMIT = 20_000_000
MAX_EXTRA = 20_000_000
"""Bytes of all files of `files.extra`: the artifact is small, and every change of it stores it again."""
ADAPTER_WEIGHTS = "adapter_model.safetensors"
Header = tuple[dict[str, int], tuple[TensorHeader, ...]]


class Unreadable(Exception):
    """What is wrong with a file of the model, in words for people."""


def gather(recipe: Recipe, deps: Dependencies) -> Facts:
    """What `gather_model` reads, and the target's facts."""
    return deps.targets[recipe.endpoint.target].gather(recipe, gather_model(recipe, deps))


def gather_model(recipe: Recipe, deps: Dependencies) -> Facts:
    """The model's repository and the user's own files; NotFound and AccessError name the missing one."""
    folder = Path(recipe.origin).parent
    hub = deps.hub(recipe.model_id)
    in_place = _in_place(recipe, hub)
    listing = in_place_listing(in_place) if in_place else hub.listing(model_location(recipe), recipe.revision)
    compiled = recipe.compile or Compile()
    return Facts(
        listing=listing,
        in_place=in_place,
        config=read_json(hub, listing, "config.json"),
        tensors=tensors(hub, listing),
        shards=shards(read_json(hub, listing, INDEX)),
        model_py=_own_file(folder, recipe.handler.file, "handler.file"),
        requirements=_own_file(folder, recipe.requirements, "requirements"),
        extra_files=_extra_files(recipe, folder),
        compile_script=_own_file(folder, compiled.script, "compile.script"),
        compile_requirements=_own_file(folder, compiled.requirements, "compile.requirements"),
        adapters=adapters(recipe, deps),
        draft=draft(recipe, deps),
        build=_build_context(recipe, deps),
    )


def _in_place(recipe: Recipe, hub: Hub) -> InPlaceWeights | None:
    """This machine needs its own copy, whose bytes are verified: target local uses no object in place."""
    if not recipe.weights.in_place or recipe.endpoint.target == "local":
        return None
    assert isinstance(hub, ListsVersions), "the recipe's checks require a model_id in S3"
    return hub.in_place(recipe.model_id)


def _build_context(recipe: Recipe, deps: Dependencies) -> BuildContext | None:
    build = recipe.container.build
    if build is None:
        return None
    folder = Path(recipe.origin).parent / Path(build).expanduser()
    return deps.images.context(folder, recipe.container.dockerfile or DOCKERFILE)


def adapters(recipe: Recipe, deps: Dependencies) -> tuple[AdapterFacts, ...]:
    """The repository of each adapter, with its configuration and the headers of its tensors."""
    return tuple(_adapter(recipe, source, deps) for source in recipe.adapters)


def _adapter(recipe: Recipe, source: AdapterSource, deps: Dependencies) -> AdapterFacts:
    hub = deps.hub(source.source)
    listing = hub.listing(location(recipe, source.source), source.revision)
    entry = next((each for each in listing.files if each.path == ADAPTER_WEIGHTS), None)
    return AdapterFacts(
        name=source.name,
        revision=source.revision,
        listing=listing,
        config=read_json(hub, listing, "adapter_config.json"),
        tensors=_header(hub, listing, entry)[1] if entry else (),
    )


def draft(recipe: Recipe, deps: Dependencies) -> DraftFacts | None:
    """The repository of the draft model, if lmi transfers one."""
    source = draft_source(recipe)
    if source is None:
        return None
    listing = deps.hub(source.model_id).listing(location(recipe, source.model_id), source.revision)
    return DraftFacts(revision=source.revision, listing=listing)


def _extra_files(recipe: Recipe, folder: Path) -> tuple[tuple[str, bytes], ...]:
    """The user's files for the artifact. Unresolvable if they are too large for it."""
    sizes = {path: _size(folder / name, f"files.extra.{path}") for path, name in recipe.files.extra}
    if (total := sum(sizes.values())) > MAX_EXTRA:
        largest = max(sizes, key=lambda path: sizes[path])
        raise Unresolvable(
            f"files.extra: {size_text(total)} in all, the largest is {largest}; at most {size_text(MAX_EXTRA)}",
            hint="put large files into the model's repository or folder: lmi delivers them with the weights",
        )
    return tuple(
        (path, _own_file(folder, name, f"files.extra.{path}") or b"") for path, name in recipe.files.extra
    )


def _size(path: Path, key: str) -> int:
    if not path.is_file():
        raise _unreadable(path, key, "no such file")
    return path.stat().st_size


def model_location(recipe: Recipe) -> str:
    """The model_id; a path is relative to the recipe's folder, not to the current one."""
    return location(recipe, recipe.model_id)


def location(recipe: Recipe, source: str) -> str:
    """Any source of the recipe, by the same rule."""
    if source.startswith(("./", "../")):
        return str((Path(recipe.origin).parent / source).resolve())
    return source


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
        raise _unreadable(path, key, reason.strerror or str(reason)) from None


def _unreadable(path: Path, key: str, why: str) -> NotFound:
    return NotFound(f"{key}: {path}: {why}", hint="write paths relative to the recipe's folder")
