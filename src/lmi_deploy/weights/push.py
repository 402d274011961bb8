"""Weights into a bucket: content-addressed, complete or absent, each byte moved once."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field

from lmi_deploy import __version__
from lmi_deploy.domain.events import Event, Progress
from lmi_deploy.domain.facts import FileEntry, ModelListing
from lmi_deploy.domain.weights import Manifest, StoredFile, weights_name, weights_prefix
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.object_store import ObjectStore, Stored
from lmi_deploy.ports.source import Source
from lmi_deploy.weights.context import Ends
from lmi_deploy.weights.external_upload import Carriage, carried
from lmi_deploy.weights.file_plan import planned, refuse_strangers
from lmi_deploy.weights.maintenance import give_up
from lmi_deploy.weights.manifest_comparison import compare_listing, listed_weights
from lmi_deploy.weights.manifests import write_manifest
from lmi_deploy.weights.progress import Board
from lmi_deploy.weights.runner import Run
from lmi_deploy.weights.settings import TransferSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """From where to where, and how much of this machine it may take."""

    source: Source
    store: ObjectStore
    clock: Clock
    carriage: Carriage | None = None
    """An outside engine instead of our own, for files that lie in a folder."""
    settings: TransferSettings = field(default_factory=TransferSettings)
    completed: Callable[[str], None] = lambda name: None
    """Is told the name of weights that were not complete before."""


def push(
    listing: ModelListing, files: Sequence[FileEntry], *, way: Way, key: str
) -> Generator[Event, None, Manifest]:
    """Bring `files` of a listing into the bucket, each verified before it is an object, the manifest last.

    Where the manifest is there and its files are, nothing is moved. Raises IntegrityError, TransferFailed, AccessError
    or Interrupted; what is whole is kept, parts of files too, and the next call goes on from there.
    """
    name = weights_name(listing.model_id, listing.commit, tuple(files))
    found, there = complete_weights(way.store, name)
    if found is not None:
        yield nothing_to_do(found, key)
        return found
    board = Board(sum(entry.size for entry in files))
    ends = Ends(listing, way.source, way.store, weights_prefix(name), board)
    if way.carriage is None:
        stored = yield from _sent(ends, files, there, way=way, key=key)
    else:
        refuse_strangers(ends, files, there)
        stored = yield from carried(ends, files, there, by=way.carriage, key=key)
    ours = manifest_of(name, listing, tuple(sorted(stored, key=lambda file: file.path)), way.clock)
    written = write_manifest(way.store, ours)
    if written is not ours:
        # Somebody pushed the same meanwhile: whatever upload is left of the two of us, nobody needs it.
        give_up(way.store, way.store.uploads(weights_prefix(name)))
    way.completed(name)
    return written


def complete_weights(store: ObjectStore, name: str) -> tuple[Manifest | None, dict[str, Stored]]:
    """The manifest, where it is there and its files are; and whatever lies under the prefix."""
    found, listed = listed_weights(store, name)
    whole = found is not None and not compare_listing(store, found, listed)
    return (found if whole else None), listed


def nothing_to_do(found: Manifest, key: str) -> Progress:
    return Progress(key=key, done=found.size, total=found.size, unit="bytes", note="all there already")


def _sent(
    ends: Ends, files: Sequence[FileEntry], there: Mapping[str, Stored], *, way: Way, key: str
) -> Generator[Event, None, list[StoredFile]]:
    work = planned(ends, files, there)
    run = Run(ends, way.clock, way.settings, key)
    yield from run.all(work.sendings)
    return [*work.there, *run.done.values()]


def manifest_of(name: str, listing: ModelListing, files: tuple[StoredFile, ...], clock: Clock) -> Manifest:
    """What the bucket is told once every file is there."""
    return Manifest(
        name=name,
        model_id=listing.model_id,
        commit=listing.commit,
        source=listing.source,
        files=files,
        created=clock.now().isoformat(timespec="seconds"),
        tool=__version__,
    )
