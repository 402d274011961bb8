"""Files of this machine, sent by an outside engine: hashed before they go, held to S3's word when they are there."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from lmi_deploy.core.events import Event, Progress
from lmi_deploy.core.facts import FileEntry
from lmi_deploy.core.weights import StoredFile
from lmi_deploy.errors import IntegrityError, LmiError, TransferFailed
from lmi_deploy.ports.carrier import Carrier, Load
from lmi_deploy.ports.object_store import ObjectStore, Stored
from lmi_deploy.transfer.ends import GO_ON, Ends
from lmi_deploy.transfer.parts import part_size
from lmi_deploy.transfer.seals import Seal

_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Carriage:
    """Who carries, and the folder in which the files of the listing lie."""

    carrier: Carrier
    folder: Path


def carried(
    ends: Ends, files: Sequence[FileEntry], there: Mapping[str, Stored], *, by: Carriage, key: str
) -> Generator[Event, None, list[StoredFile]]:
    """Every file as it lies in the bucket. What is there by its size and ETag is not sent again."""
    known = yield from _sealed(files, by.folder, key)
    total, safe = ends.board.total, 0
    left: dict[str, StoredFile] = {}
    for file in known:
        at = ends.prefix + file.path
        found = there.get(at)
        if found is not None and (found.size, _bare(found.etag)) == (file.size, file.etag):
            safe += file.size
        else:
            left[at] = file
    yield Progress(key=key, done=safe, total=total, unit="bytes", note=by.carrier.name)
    try:
        for done in _sent(ends.store, left, by):
            safe += left[done].size if done else 0
            yield Progress(key=key, done=safe, total=total, unit="bytes", note=by.carrier.name)
    finally:
        _abort(ends, left)
    yield from _proved(ends.store, left, key, total)
    return [left.get(ends.prefix + file.path, file) for file in known]


def _sent(store: ObjectStore, left: Mapping[str, StoredFile], by: Carriage) -> Generator[str, None, None]:
    loads = [
        Load(path=by.folder / file.path, key=at, size=file.size, part=part_size(file.size))
        for at, file in sorted(left.items(), key=lambda pair: -pair[1].size)
    ]
    if not loads:
        return
    with closing(by.carrier.carry(loads, bucket=store.bucket)) as carrying:
        for done in carrying:
            yield done if done in left else ""


def _sealed(
    files: Sequence[FileEntry], folder: Path, key: str
) -> Generator[Progress, None, list[StoredFile]]:
    """Read once for all its hashes, and held to the source's own."""
    total, done = sum(entry.size for entry in files), 0
    found: dict[str, StoredFile] = {}
    pool = ThreadPoolExecutor(_AT_ONCE)
    try:
        running = [pool.submit(partial(_seal, entry, folder)) for entry in files]
        for ended in as_completed(running):
            file = ended.result()
            found[file.path] = file
            done += file.size
            yield Progress(key=key, done=done, total=total, unit="bytes", note="hashing what is here")
    finally:
        pool.shutdown(cancel_futures=True)
    return [found[entry.path] for entry in files]


def _seal(entry: FileEntry, folder: Path) -> StoredFile:
    seal, crc, each, size = Seal(entry), 0, part_size(entry.size), 0
    parts: list[bytes] = []
    try:
        with (folder / entry.path).open("rb", buffering=0) as file:
            while piece := file.read(each):
                while len(piece) < each and (more := file.read(each - len(piece))):
                    piece += more
                seal.update(memoryview(piece))
                crc = zlib.crc32(piece, crc)
                size += len(piece)
                parts.append(hashlib.md5(piece, usedforsecurity=False).digest())
    except OSError as exc:
        raise TransferFailed(
            f"{folder / entry.path}: {exc.strerror or exc}", hint="check the file and its rights"
        ) from exc
    if size != entry.size:
        raise IntegrityError(
            f"{entry.path}: {size} bytes are here, its source says {entry.size}", hint="fetch it again"
        )
    seal.check()
    return StoredFile(
        path=entry.path,
        size=size,
        sha256=seal.sha256,
        oid=entry.oid,
        kind=entry.kind,
        checksum=base64.b64encode(crc.to_bytes(4, "big")).decode(),
        algorithm="CRC32",
        etag=_etag(parts),
    )


def _etag(parts: Sequence[bytes]) -> str:
    """What S3 gives to bytes that it keeps without a key of KMS."""
    if len(parts) < 2:
        return parts[0].hex() if parts else hashlib.md5(b"", usedforsecurity=False).hexdigest()
    return f"{hashlib.md5(b''.join(parts), usedforsecurity=False).hexdigest()}-{len(parts)}"


def _abort(ends: Ends, left: Mapping[str, StoredFile]) -> None:
    """Parts that the engine left are of no use to anybody, and paid for."""
    # What cannot be asked for or aborted now is found by `lmi gc`; why the sending failed is to be told, not this.
    with suppress(LmiError):
        for upload in ends.store.uploads(ends.prefix) if left else ():
            if upload.key in left:
                ends.store.abort(upload)


def _proved(
    store: ObjectStore, left: dict[str, StoredFile], key: str, total: int
) -> Generator[Progress, None, None]:
    """By S3's word where it says enough, else by reading back; what is wrong is no object any more."""
    for at, file in left.items():
        found = store.look(at)
        if found is None:
            raise TransferFailed(f"{file.path}: it was sent, and S3 does not have it", hint=GO_ON)
        if not _vouched(file, found):
            yield Progress(key=key, done=total, total=total, unit="bytes", note=f"reading {file.path} back")
            _reread(store, file, found)
        left[at] = replace(file, etag=_bare(found.etag))


def _vouched(file: StoredFile, found: Stored) -> bool:
    if found.size != file.size:
        return False
    return _bare(found.etag) == file.etag or (found.algorithm, found.checksum) == ("CRC32", file.checksum)


def _reread(store: ObjectStore, file: StoredFile, found: Stored) -> None:
    """Its ETag is no hash where KMS encrypts."""
    seal = hashlib.sha256()
    for chunk in store.read(found.key, etag=found.etag):
        seal.update(chunk)
    if seal.hexdigest() != file.sha256:
        store.delete([found.key])
        raise IntegrityError(
            f"{file.path}: {found.size} bytes with sha256 {seal.hexdigest()} arrived, {file.size} with {file.sha256}"
            " were sent; removed again",
            hint="run the same command again; or leave weights.engine out: our own engine has S3 verify each part",
        )


def _bare(etag: str) -> str:
    return etag.strip('"')
