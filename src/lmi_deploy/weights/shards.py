"""One instance's part of a transfer: its own files, a note of them, and the manifest by whoever is last."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from lmi_deploy.domain.events import Event, Notice, Progress
from lmi_deploy.domain.facts import FileEntry
from lmi_deploy.domain.sagemaker.transfer_job import Order, read_shard, shard_key, shard_of, shard_text
from lmi_deploy.domain.weights import Manifest, StoredFile, weights_name, weights_prefix
from lmi_deploy.ports.object_store import ObjectStore
from lmi_deploy.weights.context import Ends
from lmi_deploy.weights.file_plan import planned
from lmi_deploy.weights.manifests import write_manifest
from lmi_deploy.weights.progress import Board
from lmi_deploy.weights.push import Way, complete_weights, manifest_of
from lmi_deploy.weights.runner import Run


def push_shard(
    order: Order, *, number: int, count: int, way: Way, key: str
) -> Generator[Event, None, Manifest | None]:
    """Bring this instance's files; the manifest where all the others' are there too, None where somebody is behind.

    Each file is verified before it is an object, and what an earlier job brought is not brought again.
    """
    files = order.listing.files
    name = weights_name(order.listing.model_id, order.listing.commit, files)
    if (found := complete_weights(way.store, name)[0]) is not None:
        yield Progress(key=key, done=found.size, total=found.size, unit="bytes", note="all there already")
        return found
    mine = shard_of(files, number, count)
    yield Notice(text=f"instance {number + 1} of {count}: {len(mine)} of {len(files)} files")
    stored = yield from _brought(order, mine, way=way, name=name, key=key)
    way.store.put(shard_key(order.job, number), shard_text(stored).encode())
    return _whole(order, name, count, way=way)


def _brought(
    order: Order, mine: tuple[FileEntry, ...], *, way: Way, name: str, key: str
) -> Generator[Event, None, tuple[StoredFile, ...]]:
    there = {stored.key: stored for stored in way.store.list(weights_prefix(name))}
    ends = Ends(order.listing, way.source, way.store, weights_prefix(name), Board(sum(e.size for e in mine)))
    # Other instances write under the same prefix: what is a stranger is judged against all files, not mine.
    work = planned(ends, mine, there, all_files=order.listing.files)
    run = Run(ends, way.clock, way.settings, key)
    yield from run.all(work.sendings)
    return (*work.there, *run.done.values())


def _whole(order: Order, name: str, count: int, *, way: Way) -> Manifest | None:
    noted = list(_noted(way.store, order.job, count))
    files = [file for shard in noted if shard is not None for file in shard]
    if None in noted or len(files) != len(order.listing.files):
        return None
    listed = tuple(sorted(files, key=lambda file: file.path))
    return write_manifest(way.store, manifest_of(name, order.listing, listed, way.clock))


def _noted(store: ObjectStore, job: str, count: int) -> Iterator[tuple[StoredFile, ...] | None]:
    for number in range(count):
        found = store.get(shard_key(job, number))
        yield None if found is None else read_shard(found[0])
