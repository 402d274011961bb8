"""The work for each file: nothing, a copy inside S3, one put, or parts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lmi_deploy.domain.gathered_facts import FileEntry
from lmi_deploy.domain.weights import StoredFile, weights_prefix
from lmi_deploy.errors import Refused
from lmi_deploy.ports.object_store import MultipartUpload, StoredObject
from lmi_deploy.ports.source import StoredSource
from lmi_deploy.weights.existing_objects import ExistingFile, existing_file
from lmi_deploy.weights.manifests import manifests
from lmi_deploy.weights.multipart_upload import LargeFile
from lmi_deploy.weights.part_size import SMALL
from lmi_deploy.weights.server_side_copy import CopiedFile, CopySource
from lmi_deploy.weights.single_put import SmallFile, stored_file
from lmi_deploy.weights.transfer_context import TransferContext
from lmi_deploy.weights.upload_task import UploadTask


@dataclass(frozen=True, slots=True)
class TransferPlan:
    """`there`: files that an earlier run completed. `sendings`: the rest, the largest first."""

    existing: tuple[StoredFile, ...]
    uploads: tuple[UploadTask, ...]


def plan_transfer(
    context: TransferContext,
    files: Sequence[FileEntry],
    stored: Mapping[str, StoredObject],
    *,
    all_files: Sequence[FileEntry] = (),
) -> TransferPlan:
    """Check the content of the bucket: objects under the prefix, its incomplete uploads, other selections.

    `all_files` of the model, if `files` are a part of them.
    """
    refuse_foreign_objects(context, all_files or files, stored)
    existing = _existing(context, files, stored)
    full = [file for entry in files if (file := existing_file(entry, existing.get(entry.path))) is not None]
    context.board.add(safe=sum(file.size for file in full))
    done = {file.path for file in full}
    left = sorted((entry for entry in files if entry.path not in done), key=lambda entry: -entry.size)
    uploads = _by_key(context.store.uploads(context.prefix)) if any(e.size >= SMALL for e in left) else {}
    other_location = _copies_in_bucket(context) if left else {}
    tasks = []
    for entry in left:
        key = context.key(entry)
        task: UploadTask = (
            SmallFile(entry, context, existing=stored.get(key))
            if entry.size < SMALL
            else LargeFile(entry, context, uploads=uploads.get(key, ()))
        )
        tasks.append(_shortened(task, context, existing.get(entry.path), other_location))
    return TransferPlan(tuple(full), tuple(tasks))


def _shortened(
    task: UploadTask,
    context: TransferContext,
    existing: StoredObject | None,
    other_location: Mapping[tuple[str, int], CopySource],
) -> UploadTask:
    """A copy inside S3 if the bytes exist in another place; else the existing object is hashed before it is sent
    again.
    """
    entry = task.entry
    known = other_location.get((entry.oid, entry.size)) or _at_its_source(context, entry)
    if known is not None:
        return CopiedFile(task, context, known)
    return task if existing is None else ExistingFile(task, context, existing)


def refuse_foreign_objects(
    context: TransferContext, files: Sequence[FileEntry], existing: Mapping[str, StoredObject]
) -> None:
    """The container downloads the whole prefix: an additional file would become part of the model."""
    foreign = sorted(existing.keys() - {context.key(entry) for entry in files})
    if foreign:
        raise Refused(
            f"s3://{context.store.bucket}/{foreign[0]}: not part of this model, but the container would download it "
            f"({len(foreign)} such objects)",
            hint="delete or move it: a prefix of weights must contain only model files",
            details=foreign[1:],
        )


def _existing(
    context: TransferContext, files: Sequence[FileEntry], existing: Mapping[str, StoredObject]
) -> dict[str, StoredObject]:
    """Large objects of the right size, with their metadata, by path. A small file is compared when it is sent."""
    found = {}
    for entry in files:
        listed = existing.get(context.key(entry))
        if listed is None or listed.size != entry.size or entry.size < SMALL:
            continue
        if (stored := context.store.head(listed.key)) is not None and stored.size == entry.size:
            found[entry.path] = stored
    return found


def _at_its_source(context: TransferContext, entry: FileEntry) -> CopySource | None:
    """A source in the same bucket. Its bytes were hashed when it was listed, so the sha256 is that of its version."""
    if not isinstance(context.source, StoredSource) or entry.kind != "sha256":
        return None
    location = context.source.locate(context.listing, entry.path)
    if location is None or location.bucket != context.store.bucket:
        return None
    return CopySource(location.key, stored_file(entry, entry.oid, ""), etag=location.etag)


def _by_key(uploads: Iterable[MultipartUpload]) -> dict[str, tuple[MultipartUpload, ...]]:
    found: defaultdict[str, tuple[MultipartUpload, ...]] = defaultdict(tuple)
    for upload in uploads:
        found[upload.key] += (upload,)
    return found


def _copies_in_bucket(context: TransferContext) -> dict[tuple[str, int], CopySource]:
    """Complete files of the same model in the bucket, from other commits and selections, by their hash."""
    model = context.prefix.split("/")[1]
    return {
        (oid, file.size): CopySource(weights_prefix(manifest.name) + file.path, file)
        for manifest in manifests(context.store, model)
        for file in manifest.files
        for oid in (file.oid, file.sha256)
    }
