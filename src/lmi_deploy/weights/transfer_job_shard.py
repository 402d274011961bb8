"""The part of a transfer of one instance: its own files, a note of them, and the manifest from the last instance."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from lmi_deploy.domain.events import Event, Notice, Progress
from lmi_deploy.domain.gathered_facts import FileEntry
from lmi_deploy.domain.sagemaker.transfer_job import JobRequest, read_shard, shard_key, shard_of, shard_text
from lmi_deploy.domain.weights import Manifest, StoredFile, weights_name, weights_prefix
from lmi_deploy.ports.object_store import ObjectStore
from lmi_deploy.weights.manifests import write_manifest
from lmi_deploy.weights.push import PushContext, complete_weights, manifest_of
from lmi_deploy.weights.transfer_context import TransferContext
from lmi_deploy.weights.transfer_plan import plan_transfer
from lmi_deploy.weights.transfer_progress import TransferProgress
from lmi_deploy.weights.transfer_run import TransferRun


def push_shard(
    order: JobRequest, *, number: int, count: int, context: PushContext, key: str
) -> Generator[Event, None, Manifest | None]:
    """Transfer this instance's files; return the manifest if all others are complete too, None if one is not.

    Each file is verified before it becomes an object, and files that an earlier job transferred are skipped.
    """
    files = order.listing.files
    name = weights_name(order.listing.model_id, order.listing.commit, files)
    if (found := complete_weights(context.store, name)[0]) is not None:
        yield Progress(
            key=key, done=found.size, total=found.size, unit="bytes", note="all already in the bucket"
        )
        return found
    own = shard_of(files, number, count)
    yield Notice(text=f"instance {number + 1} of {count}: {len(own)} of {len(files)} files")
    stored = yield from _uploaded(order, own, push_context=context, name=name, key=key)
    context.store.put(shard_key(order.job, number), shard_text(stored).encode())
    return _finish(order, name, count, context=context)


def _uploaded(
    order: JobRequest, own: tuple[FileEntry, ...], *, push_context: PushContext, name: str, key: str
) -> Generator[Event, None, tuple[StoredFile, ...]]:
    existing = {stored.key: stored for stored in push_context.store.list(weights_prefix(name))}
    context = TransferContext(
        order.listing,
        push_context.source,
        push_context.store,
        weights_prefix(name),
        TransferProgress(sum(e.size for e in own)),
    )
    # Other instances write under the same prefix: an object is foreign only if it is in none of the instances' files.
    work = plan_transfer(context, own, existing, all_files=order.listing.files)
    run = TransferRun(context, push_context.clock, push_context.settings, key)
    yield from run.all(work.uploads)
    return (*work.existing, *run.done.values())


def _finish(order: JobRequest, name: str, count: int, *, context: PushContext) -> Manifest | None:
    recorded = list(_recorded(context.store, order.job, count))
    files = [file for shard in recorded if shard is not None for file in shard]
    if None in recorded or len(files) != len(order.listing.files):
        return None
    listed = tuple(sorted(files, key=lambda file: file.path))
    return write_manifest(context.store, manifest_of(name, order.listing, listed, context.clock))


def _recorded(store: ObjectStore, job: str, count: int) -> Iterator[tuple[StoredFile, ...] | None]:
    for number in range(count):
        found = store.get(shard_key(job, number))
        yield None if found is None else read_shard(found[0])
