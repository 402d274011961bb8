"""Files of this machine, sent by an external uploader: hashed before, compared with S3's checksums after."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from lmi_deploy.domain.content_hashes import sha256_of
from lmi_deploy.domain.crc32 import crc32, crc32_text
from lmi_deploy.domain.events import Event, Progress
from lmi_deploy.domain.gathered_facts import FileEntry, ModelSource
from lmi_deploy.domain.weights import StoredFile
from lmi_deploy.errors import IntegrityError, LmiError, TransferFailed
from lmi_deploy.host.disk import FILE_CHANGES, unreadable
from lmi_deploy.host.worker_pool import run_each
from lmi_deploy.ports.external_uploader import ExternalUploader, UploadedFile, UploadItem
from lmi_deploy.ports.object_store import ObjectStore, StoredObject
from lmi_deploy.weights.part_size import part_size
from lmi_deploy.weights.single_put import stored_file
from lmi_deploy.weights.streaming_hash import FileHasher
from lmi_deploy.weights.transfer_context import GO_ON, TransferContext

_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class ExternalUpload:
    """The uploader, and the folder of the files in the listing."""

    uploader: ExternalUploader
    folder: Path


def upload_externally(
    context: TransferContext,
    files: Sequence[FileEntry],
    existing: Mapping[str, StoredObject],
    *,
    by: ExternalUpload,
    key: str,
) -> Generator[Event, None, list[StoredFile]]:
    """Every file as it is in the bucket. A file that exists with its size and ETag is not sent again."""
    to_hash = _files_to_hash(context, files, existing, by)
    known = yield from _hashed(to_hash, by.folder, context.listing.source, key)
    total, name = context.board.total, by.uploader.name
    left = {
        context.key(entry): entry
        for entry in files
        if not _is_uploaded(existing.get(context.key(entry)), known, entry)
    }
    safe = total - sum(entry.size for entry in left.values())
    received: dict[str, UploadedFile] = {}
    yield Progress(key=key, done=safe, total=total, unit="bytes", note=name)
    try:
        for sent in _sent(context.store, left, by):
            if sent is not None and sent.key in left:
                received[sent.key] = sent
                safe += left[sent.key].size
            yield Progress(key=key, done=safe, total=total, unit="bytes", note=name)
    finally:
        _abort(context, left)
    uploaded = {
        at: _matches_report(entry, received.get(at)) if by.uploader.hashes else known[entry.path]
        for at, entry in left.items()
    }
    if not by.uploader.hashes:  # else S3 verified each file on arrival, and reported it
        yield from _verified(context, uploaded, key, total)
    return [uploaded.get(context.key(entry)) or known[entry.path] for entry in files]


def _files_to_hash(
    context: TransferContext,
    files: Sequence[FileEntry],
    existing: Mapping[str, StoredObject],
    by: ExternalUpload,
) -> list[FileEntry]:
    """An uploader that hashes needs hashes only of files that may already exist."""
    lying = {at: stored.size for at, stored in existing.items()}
    return [entry for entry in files if not by.uploader.hashes or lying.get(context.key(entry)) == entry.size]


def _is_uploaded(found: StoredObject | None, known: Mapping[str, StoredFile], entry: FileEntry) -> bool:
    file = known.get(entry.path)
    return found is not None and file is not None and _is(found, file)


def _is(found: StoredObject, file: StoredFile) -> bool:
    return (found.size, _bare(found.etag)) == (file.size, file.etag)


def _sent(
    store: ObjectStore, left: Mapping[str, FileEntry], by: ExternalUpload
) -> Generator[UploadedFile | None, None, None]:
    loads = [
        UploadItem(
            path=by.folder / entry.path,
            key=at,
            size=entry.size,
            part=part_size(entry.size),
            oid=entry.oid,
            kind=entry.kind,
        )
        for at, entry in sorted(left.items(), key=lambda pair: -pair[1].size)
    ]
    if loads:
        with closing(by.uploader.upload_files(loads, bucket=store.bucket)) as carrying:
            yield from carrying


def _matches_report(entry: FileEntry, sent: UploadedFile | None) -> StoredFile:
    if sent is None:
        raise TransferFailed(f"{entry.path}: the uploader did not confirm it", hint=GO_ON)
    return replace(stored_file(entry, sent.sha256, sent.crc32), etag=sent.etag)


def _hashed(
    files: Sequence[FileEntry], folder: Path, source: ModelSource, key: str
) -> Generator[Progress, None, dict[str, StoredFile]]:
    """Read once for all its hashes, and compared with the source's own; by their paths."""
    total, done = sum(entry.size for entry in files), 0
    found: dict[str, StoredFile] = {}
    with closing(run_each(partial(_hash_file, folder, source), files, workers=_AT_ONCE)) as hashed:
        for entry, file in hashed:
            found[entry.path] = file
            done += file.size
            yield Progress(key=key, done=done, total=total, unit="bytes", note="hashing local files")
    return found


def _hash_file(folder: Path, source: ModelSource, entry: FileEntry) -> StoredFile:
    hasher, crc, each, size = FileHasher(entry), 0, part_size(entry.size), 0
    parts: list[bytes] = []
    try:
        with (folder / entry.path).open("rb", buffering=0) as file:
            while chunk := file.read(each):
                while len(chunk) < each and (more := file.read(each - len(chunk))):
                    chunk += more
                hasher.update(memoryview(chunk))
                crc = crc32(chunk, crc)
                size += len(chunk)
                parts.append(hashlib.md5(chunk, usedforsecurity=False).digest())
    except OSError as exc:
        raise unreadable(folder / entry.path, exc) from exc
    if size != entry.size:
        raise IntegrityError(
            f"{entry.path}: the local file has {size} bytes, but its source says {entry.size}",
            hint=FILE_CHANGES if source == "folder" else "download it again",
        )
    hasher.check(source)
    return replace(stored_file(entry, hasher.sha256, crc32_text(crc)), etag=_etag(parts))


def _etag(parts: Sequence[bytes]) -> str:
    """The ETag that S3 gives to bytes stored without a KMS key."""
    if len(parts) < 2:
        return parts[0].hex() if parts else hashlib.md5(b"", usedforsecurity=False).hexdigest()
    return f"{hashlib.md5(b''.join(parts), usedforsecurity=False).hexdigest()}-{len(parts)}"


def _abort(context: TransferContext, left: Mapping[str, FileEntry]) -> None:
    """Parts that the engine left are of no use to anybody, and paid for."""
    # `lmi gc` finds what cannot be listed or aborted now; the error of the upload is reported, not this one.
    with suppress(LmiError):
        for upload in context.store.uploads(context.prefix) if left else ():
            if upload.key in left:
                context.store.abort(upload)


def _verified(
    context: TransferContext, uploaded: dict[str, StoredFile], key: str, total: int
) -> Generator[Progress, None, None]:
    """By S3's checksum if it is sufficient, else by reading back; a wrong object is deleted."""
    listed = {stored.key: stored for stored in context.store.list(context.prefix)} if uploaded else {}
    for at, file in uploaded.items():
        found = listed.get(at)
        if found is None:
            raise TransferFailed(f"{file.path}: it was sent, but S3 does not have it", hint=GO_ON)
        if not (_is(found, file) or _confirmed_hash(file, context.store.head(at))):
            yield Progress(key=key, done=total, total=total, unit="bytes", note=f"reading {file.path} back")
            _reread(context.store, file, found)
        uploaded[at] = replace(file, etag=_bare(found.etag))


def _confirmed_hash(file: StoredFile, found: StoredObject | None) -> bool:
    if found is None or found.size != file.size:
        return False
    return (found.algorithm, found.checksum) == ("CRC32", file.checksum)


def _reread(store: ObjectStore, file: StoredFile, found: StoredObject) -> None:
    """Its ETag is not a hash if KMS encrypts."""
    got = sha256_of(store.read(found.key, etag=found.etag))
    if got != file.sha256:
        store.delete([found.key])
        raise IntegrityError(
            f"{file.path}: {found.size} bytes with sha256 {got} arrived, but {file.size} with {file.sha256} were "
            "sent; deleted from S3",
            hint="run the same command again, or remove weights.engine: with lmi's own uploader S3 verifies each "
            "part",
        )


def _bare(etag: str) -> str:
    return etag.strip('"')
