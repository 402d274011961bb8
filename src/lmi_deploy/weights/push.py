"""Weights into a bucket: content-addressed, complete or absent, each byte moved once."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field

from lmi_deploy import __version__
from lmi_deploy.domain.events import Event, Progress
from lmi_deploy.domain.gathered_facts import FileEntry, ModelListing
from lmi_deploy.domain.weights import Manifest, StoredFile, weights_name, weights_prefix
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.object_store import ObjectStore, StoredObject
from lmi_deploy.ports.source import Source
from lmi_deploy.weights.external_upload import ExternalUpload, upload_externally
from lmi_deploy.weights.manifest_comparison import compare_listing, listed_weights
from lmi_deploy.weights.manifests import write_manifest
from lmi_deploy.weights.transfer_context import TransferContext
from lmi_deploy.weights.transfer_plan import plan_transfer, refuse_foreign_objects
from lmi_deploy.weights.transfer_progress import TransferProgress
from lmi_deploy.weights.transfer_run import TransferRun
from lmi_deploy.weights.transfer_settings import TransferSettings
from lmi_deploy.weights.weights_maintenance import give_up


@dataclass(frozen=True, slots=True, kw_only=True)
class PushContext:
    """Source, destination, and this machine's resources for the transfer."""

    source: Source
    store: ObjectStore
    clock: Clock
    external_upload: ExternalUpload | None = None
    """An external uploader instead of our own, for files in a local folder."""
    settings: TransferSettings = field(default_factory=TransferSettings)
    completed: Callable[[str], None] = lambda name: None
    """Called with the name of weights that were not complete before."""


def push(
    listing: ModelListing, files: Sequence[FileEntry], *, push_context: PushContext, key: str
) -> Generator[Event, None, Manifest]:
    """Upload `files` of a listing into the bucket, each verified before it becomes an object, the manifest last.

    If the manifest and its files exist, nothing is transferred. Raises IntegrityError, TransferFailed, AccessError or
    Interrupted; complete files and parts stay, and the next call resumes there.
    """
    name = weights_name(listing.model_id, listing.commit, tuple(files))
    found, existing = complete_weights(push_context.store, name)
    if found is not None:
        yield nothing_to_do(found, key)
        return found
    progress = TransferProgress(sum(entry.size for entry in files))
    context = TransferContext(
        listing, push_context.source, push_context.store, weights_prefix(name), progress
    )
    if push_context.external_upload is None:
        stored = yield from _sent(context, files, existing, push_context=push_context, key=key)
    else:
        refuse_foreign_objects(context, files, existing)
        stored = yield from upload_externally(
            context, files, existing, by=push_context.external_upload, key=key
        )
    own = manifest_of(name, listing, tuple(sorted(stored, key=lambda file: file.path)), push_context.clock)
    written = write_manifest(push_context.store, own)
    if written is not own:
        # Another process pushed the same in the meantime: remaining uploads of both are no longer needed.
        give_up(push_context.store, push_context.store.uploads(weights_prefix(name)))
    push_context.completed(name)
    return written


def complete_weights(store: ObjectStore, name: str) -> tuple[Manifest | None, dict[str, StoredObject]]:
    """The manifest, if it and its files exist; and all objects under the prefix."""
    found, listed = listed_weights(store, name)
    is_complete = found is not None and not compare_listing(store, found, listed)
    return (found if is_complete else None), listed


def nothing_to_do(found: Manifest, key: str) -> Progress:
    return Progress(
        key=key, done=found.size, total=found.size, unit="bytes", note="all already in the bucket"
    )


def _sent(
    context: TransferContext,
    files: Sequence[FileEntry],
    existing: Mapping[str, StoredObject],
    *,
    push_context: PushContext,
    key: str,
) -> Generator[Event, None, list[StoredFile]]:
    work = plan_transfer(context, files, existing)
    run = TransferRun(context, push_context.clock, push_context.settings, key)
    yield from run.all(work.uploads)
    return [*work.existing, *run.done.values()]


def manifest_of(name: str, listing: ModelListing, files: tuple[StoredFile, ...], clock: Clock) -> Manifest:
    """The manifest that is written once every file is in the bucket."""
    return Manifest(
        name=name,
        model_id=listing.model_id,
        commit=listing.commit,
        source=listing.source,
        files=files,
        created=clock.now().isoformat(timespec="seconds"),
        tool=__version__,
        compiled=listing.compiled,
    )
