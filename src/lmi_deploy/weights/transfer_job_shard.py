"""The part of a transfer of one instance: its own files of each model, a note of them, and the manifest from the last
instance.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

from lmi_deploy.domain.events import Event, Notice, Progress
from lmi_deploy.domain.gathered_facts import FileEntry, ModelListing
from lmi_deploy.domain.sagemaker.transfer_job import JobRequest, read_shard, shard_key, shard_of, shard_text
from lmi_deploy.domain.weights import Manifest, StoredFile, weights_name, weights_prefix
from lmi_deploy.ports.object_store import ObjectStore
from lmi_deploy.weights.manifests import write_manifest
from lmi_deploy.weights.push import PushContext, complete_weights, manifest_of
from lmi_deploy.weights.transfer_context import TransferContext
from lmi_deploy.weights.transfer_plan import plan_transfer
from lmi_deploy.weights.transfer_progress import TransferProgress
from lmi_deploy.weights.transfer_run import TransferRun


class Share(NamedTuple):
    """Of one instance: `number` (from 0) of `instances`."""

    number: int
    instances: int


def push_shard(
    order: JobRequest, *, number: int, count: int, context: PushContext, key: str
) -> Generator[Event, None, tuple[Manifest | None, ...]]:
    """Transfer this instance's files of each model; return each manifest if all other instances have completed that
    model too, None if one has not.

    Each file is verified before it becomes an object, and files that an earlier job transferred are skipped.
    """
    found = []
    for listing in order.listings:
        pushed = yield from _push_model(order.job, listing, Share(number, count), context=context, key=key)
        found.append(pushed)
    return tuple(found)


def _push_model(
    job: str, listing: ModelListing, share: Share, *, context: PushContext, key: str
) -> Generator[Event, None, Manifest | None]:
    files = listing.files
    name = weights_name(listing.model_id, listing.commit, files)
    if (found := complete_weights(context.store, name)[0]) is not None:
        yield Progress(
            key=key, done=found.size, total=found.size, unit="bytes", note="all already in the bucket"
        )
        return found
    own = shard_of(files, share.number, share.instances)
    instance = f"instance {share.number + 1} of {share.instances}"
    yield Notice(text=f"{instance}: {len(own)} of {len(files)} files of {listing.model_id}")
    stored = yield from _uploaded(listing, own, push_context=context, name=name, key=key)
    context.store.put(shard_key(job, name, share.number), shard_text(stored).encode())
    recorded = list(_recorded(context.store, job, name, share.instances))
    return _finish(listing, name, recorded, context=context)


def _uploaded(
    listing: ModelListing, own: tuple[FileEntry, ...], *, push_context: PushContext, name: str, key: str
) -> Generator[Event, None, tuple[StoredFile, ...]]:
    existing = {stored.key: stored for stored in push_context.store.list(weights_prefix(name))}
    context = TransferContext(
        listing,
        push_context.source,
        push_context.store,
        weights_prefix(name),
        TransferProgress(sum(e.size for e in own)),
    )
    # Other instances write under the same prefix: an object is foreign only if it is in none of the instances' files.
    work = plan_transfer(context, own, existing, all_files=listing.files)
    run = TransferRun(context, push_context.clock, push_context.settings, key)
    yield from run.all(work.uploads)
    return (*work.existing, *run.done.values())


def _finish(
    listing: ModelListing,
    name: str,
    recorded: Sequence[tuple[StoredFile, ...] | None],
    *,
    context: PushContext,
) -> Manifest | None:
    files = [file for shard in recorded if shard is not None for file in shard]
    if None in recorded or len(files) != len(listing.files):
        return None
    listed = tuple(sorted(files, key=lambda file: file.path))
    return write_manifest(context.store, manifest_of(name, listing, listed, context.clock))


def _recorded(store: ObjectStore, job: str, name: str, count: int) -> Iterator[tuple[StoredFile, ...] | None]:
    for number in range(count):
        found = store.get(shard_key(job, name, number))
        yield None if found is None else read_shard(found[0])
