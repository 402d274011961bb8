"""What is to be done for each file: nothing, a copy inside S3, one put, or parts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lmi_deploy.domain.facts import FileEntry
from lmi_deploy.domain.weights import StoredFile, weights_prefix
from lmi_deploy.errors import Refused
from lmi_deploy.ports.object_store import Stored, Upload
from lmi_deploy.ports.source import StoredSource
from lmi_deploy.weights.context import Ends
from lmi_deploy.weights.existing_objects import ExistingFile, adopted
from lmi_deploy.weights.manifests import manifests
from lmi_deploy.weights.multipart_upload import LargeFile
from lmi_deploy.weights.part_size import SMALL
from lmi_deploy.weights.server_side_copy import CopiedFile, Elsewhere
from lmi_deploy.weights.single_put import SmallFile
from lmi_deploy.weights.upload_task import Sending


@dataclass(frozen=True, slots=True)
class Work:
    """`there`: files that an earlier run completed. `sendings`: the rest, the largest first."""

    there: tuple[StoredFile, ...]
    sendings: tuple[Sending, ...]


def planned(
    ends: Ends,
    files: Sequence[FileEntry],
    there: Mapping[str, Stored],
    *,
    all_files: Sequence[FileEntry] = (),
) -> Work:
    """Look at what the bucket has: objects under the prefix, uploads on their way to it, other selections.

    `all_files` of the model, where `files` are a part of them.
    """
    refuse_strangers(ends, all_files or files, there)
    existing = _existing(ends, files, there)
    whole = [file for entry in files if (file := adopted(entry, existing.get(entry.path))) is not None]
    ends.board.add(safe=sum(file.size for file in whole))
    done = {file.path for file in whole}
    left = sorted((entry for entry in files if entry.path not in done), key=lambda entry: -entry.size)
    uploads = _by_key(ends.store.uploads(ends.prefix)) if any(e.size >= SMALL for e in left) else {}
    elsewhere = _elsewhere(ends) if left else {}
    sendings = []
    for entry in left:
        key = ends.key(entry)
        sending: Sending = (
            SmallFile(entry, ends, there=there.get(key))
            if entry.size < SMALL
            else LargeFile(entry, ends, uploads=uploads.get(key, ()))
        )
        sendings.append(_shortened(sending, ends, existing.get(entry.path), elsewhere))
    return Work(tuple(whole), tuple(sendings))


def _shortened(
    sending: Sending,
    ends: Ends,
    existing: Stored | None,
    elsewhere: Mapping[tuple[str, int], Elsewhere],
) -> Sending:
    """A copy by S3 where the bytes are known to lie elsewhere; else what is there is hashed before it is sent again."""
    entry = sending.entry
    known = elsewhere.get((entry.oid, entry.size)) or _at_its_source(ends, entry)
    if known is not None:
        return CopiedFile(sending, ends, known)
    return sending if existing is None else ExistingFile(sending, ends, existing)


def refuse_strangers(ends: Ends, files: Sequence[FileEntry], there: Mapping[str, Stored]) -> None:
    """The container downloads the whole prefix: a file more in it is a file more in the model."""
    strangers = sorted(there.keys() - {ends.key(entry) for entry in files})
    if strangers:
        raise Refused(
            f"s3://{ends.store.bucket}/{strangers[0]}: not of this model, and the container would download it"
            f" ({len(strangers)} such objects)",
            hint="remove it, or move it elsewhere: a prefix of weights holds model files and nothing else",
            details=strangers[1:],
        )


def _existing(ends: Ends, files: Sequence[FileEntry], there: Mapping[str, Stored]) -> dict[str, Stored]:
    """Large objects of the right size, with their metadata, by path. A small file is compared when it is its turn."""
    found = {}
    for entry in files:
        listed = there.get(ends.key(entry))
        if listed is None or listed.size != entry.size or entry.size < SMALL:
            continue
        if (stored := ends.store.look(listed.key)) is not None and stored.size == entry.size:
            found[entry.path] = stored
    return found


def _at_its_source(ends: Ends, entry: FileEntry) -> Elsewhere | None:
    """A source in the same bucket. Its bytes were hashed when it was listed, so the sha256 is that of its version."""
    if not isinstance(ends.source, StoredSource) or entry.kind != "sha256":
        return None
    lying = ends.source.lies(ends.listing, entry.path)
    if lying is None or lying.bucket != ends.store.bucket:
        return None
    file = StoredFile(
        path=entry.path,
        size=entry.size,
        sha256=entry.oid,
        oid=entry.oid,
        kind=entry.kind,
        checksum="",
        algorithm="CRC32",
    )
    return Elsewhere(lying.key, file, etag=lying.etag)


def _by_key(uploads: Iterable[Upload]) -> dict[str, tuple[Upload, ...]]:
    found: defaultdict[str, tuple[Upload, ...]] = defaultdict(tuple)
    for upload in uploads:
        found[upload.key] += (upload,)
    return found


def _elsewhere(ends: Ends) -> dict[tuple[str, int], Elsewhere]:
    """Files of the same model that lie whole in the bucket, from other commits and selections, by their hash."""
    model = ends.prefix.split("/")[1]
    return {
        (oid, file.size): Elsewhere(weights_prefix(manifest.name) + file.path, file)
        for manifest in manifests(ends.store, model)
        for file in manifest.files
        for oid in (file.oid, file.sha256)
    }
