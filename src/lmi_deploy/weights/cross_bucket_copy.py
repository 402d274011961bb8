"""Weights from one bucket to another, in any region: copied inside S3, without a download."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace

from lmi_deploy.domain.events import Event
from lmi_deploy.domain.gathered_facts import FileEntry, ModelListing
from lmi_deploy.domain.weights import Manifest, StoredFile, weights_prefix
from lmi_deploy.errors import IntegrityError
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.object_store import ObjectStore, StoredObject
from lmi_deploy.ports.source import BytesRead
from lmi_deploy.weights.buffer_pool import Buffer
from lmi_deploy.weights.manifests import read_manifest, write_manifest
from lmi_deploy.weights.push import nothing_to_do
from lmi_deploy.weights.server_side_copy import CopySource, copied_file
from lmi_deploy.weights.transfer_context import TransferContext
from lmi_deploy.weights.transfer_progress import TransferProgress
from lmi_deploy.weights.transfer_run import TransferRun
from lmi_deploy.weights.transfer_settings import TransferSettings
from lmi_deploy.weights.upload_task import SingleJobTask
from lmi_deploy.weights.weights_lookup import no_such


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRoute:
    """`owner`: the account that must own the bucket of `origin`."""

    origin: ObjectStore
    target: ObjectStore
    owner: str
    clock: Clock
    settings: TransferSettings


def copy_weights(name: str, *, route: CopyRoute, key: str) -> Generator[Event, None, Manifest]:
    """Copy complete weights into another bucket under the same name, the manifest last.

    Size and checksum of each copy are compared with the manifest; correct existing files are not copied again.
    """
    manifest = read_manifest(route.origin, name)
    if manifest is None:
        raise no_such(name, route.origin.bucket)
    prefix = weights_prefix(name)
    existing = {stored.key: stored for stored in route.target.list(prefix)}
    listing = ModelListing(model_id=manifest.model_id, commit=manifest.commit, files=())
    context = TransferContext(listing, NoSource(), route.target, prefix, TransferProgress(manifest.size))
    kept = {
        file.path: found
        for file in manifest.files
        if (found := _existing_copy(route.target, file, existing.get(prefix + file.path))) is not None
    }
    context.board.add(safe=sum(file.size for file in kept.values()))
    left = sorted((file for file in manifest.files if file.path not in kept), key=lambda file: -file.size)
    run = TransferRun(context, route.clock, route.settings, key)
    if left:
        yield from run.all([_Copy(file, context, route) for file in left])
    else:
        yield nothing_to_do(manifest, key)
    files = {**kept, **run.done}
    complete = replace(manifest, files=tuple(files[file.path] for file in manifest.files))
    return write_manifest(route.target, complete)


def _existing_copy(store: ObjectStore, file: StoredFile, listed: StoredObject | None) -> StoredFile | None:
    if listed is None or listed.size != file.size:
        return None
    found = store.head(listed.key)
    if found is None or (found.algorithm, found.checksum) != (file.algorithm, file.checksum):
        return None
    return replace(file, etag=found.etag.strip('"'))


class NoSource:
    def read_into(
        self, listing: ModelListing, path: str, buffer: memoryview, *, start: int
    ) -> Iterator[BytesRead]:
        raise AssertionError("S3 copies the file, or another program sends it")


class _Copy(SingleJobTask):
    """One file; checked by S3's checksum, else IntegrityError."""

    def __init__(self, file: StoredFile, context: TransferContext, route: CopyRoute) -> None:
        super().__init__(FileEntry(path=file.path, size=file.size, oid=file.oid, kind=file.kind))
        self._known = CopySource(context.key(self.entry), file, route.origin.bucket)
        self._ends = context
        self._owner = route.owner

    def run(self, buffer: Buffer) -> None:
        known, store = self._known, self._ends.store
        found = store.copy(known.key, known.key, size=self.entry.size, bucket=known.bucket, owner=self._owner)
        self.done = copied_file(self.entry, known.file, found)
        if self.done is None:
            store.delete([known.key])
            raise IntegrityError(
                f"{self.entry.path}: the copy has {found.size} bytes, {found.algorithm} {found.checksum}; but the "
                f"manifest says {known.file.size} and {known.file.algorithm} {known.file.checksum}",
                hint=f"check the original with `lmi weights verify` in {known.bucket}",
            )
        self._ends.board.add(safe=self.entry.size)
