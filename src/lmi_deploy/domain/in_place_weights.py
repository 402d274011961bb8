"""Weights that an endpoint reads where their owner keeps them: versions of objects, which lmi does not own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lmi_deploy.domain.number_text import size_text
from lmi_deploy.domain.settings_digest import digest, digest_tag


@digest_tag("ObjectVersion")
@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectVersion:
    """One object under the prefix, as it was when lmi verified it."""

    path: str
    size: int
    etag: str
    """Without its quotes."""
    version: str = ""
    """S3's version id; empty in a bucket without versioning."""

    @property
    def words(self) -> str:
        return f"{size_text(self.size)}, ETag {self.etag}"


@digest_tag("InPlaceWeights")
@dataclass(frozen=True, slots=True, kw_only=True)
class InPlaceWeights:
    """Every object under an s3:// prefix, sorted by path: the container gets all of them."""

    address: str
    """With a final slash."""
    files: tuple[ObjectVersion, ...]
    kms_keys: tuple[str, ...] = ()
    """ARNs of the KMS keys that encrypt them, sorted."""

    @property
    def commit(self) -> str:
        """40 hex that change with every object: an ETag identifies its content, whose bytes are not read."""
        return digest([(file.path, file.size, file.etag) for file in self.files])[:40]

    @property
    def without_versions(self) -> InPlaceWeights:
        """The same content under another version id is the same model."""
        return replace(self, files=tuple(replace(file, version="") for file in self.files))


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectChange:
    """An object that is not as it was verified; None: it did not exist, or no longer exists."""

    path: str
    before: ObjectVersion | None
    after: ObjectVersion | None

    @property
    def words(self) -> str:
        if self.after is None:
            return f"{self.path} was deleted"
        if self.before is None:
            return f"{self.path} was added"
        version = f" (its verified version is {self.before.version})" if self.before.version else ""
        return f"{self.path} was replaced{version}"


def object_changes(before: InPlaceWeights, after: InPlaceWeights) -> tuple[ObjectChange, ...]:
    """By path. The version id alone is no change: the content is the same."""
    old, new = _by_path(before), _by_path(after)
    return tuple(
        ObjectChange(path=path, before=old.get(path), after=new.get(path))
        for path in sorted(old.keys() | new.keys())
        if _content(old.get(path)) != _content(new.get(path))
    )


def object_changes_text(changes: tuple[ObjectChange, ...]) -> str:
    """The first of them, and how many there are."""
    more = f", and {len(changes) - 1} more" if len(changes) > 1 else ""
    return f"{changes[0].words}{more}" if changes else ""


def _by_path(weights: InPlaceWeights) -> Mapping[str, ObjectVersion]:
    return {file.path: file for file in weights.files}


def _content(version: ObjectVersion | None) -> tuple[int, str] | None:
    return (version.size, version.etag) if version else None
