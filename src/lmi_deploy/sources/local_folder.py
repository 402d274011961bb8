"""A folder on this machine as a model repository: the port Hub without a network.

Its commit is the digest of its files' paths, sizes and sha256, in 40 hex like the Hub's own.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from lmi_deploy.domain.events import Progress
from lmi_deploy.domain.gathered_facts import FileEntry, ModelListing
from lmi_deploy.domain.safe_paths import check_relative_path
from lmi_deploy.domain.settings_digest import digest
from lmi_deploy.errors import IntegrityError, NotFound, Refused
from lmi_deploy.ports.source import BytesRead
from lmi_deploy.sources.local_file_reader import fill_from
from lmi_deploy.sources.verified_download import hash_file


class LocalModel:
    """`model_id` is the folder's path; there are no revisions."""

    def listing(self, model_id: str, revision: str) -> ModelListing:
        root, paths = _files(model_id)
        with ThreadPoolExecutor(4) as pool:
            files = tuple(pool.map(lambda path: _entry(path, root), paths))
        commit = digest([(file.path, file.size, file.oid) for file in files])[:40]
        return ModelListing(model_id=str(root.resolve()), commit=commit, files=files, source="folder")

    def list_sizes(self, model_id: str) -> ModelListing:
        root, paths = _files(model_id)
        files = tuple(
            FileEntry(path=path.relative_to(root).as_posix(), size=path.stat().st_size, oid="", kind="sha256")
            for path in paths
        )
        return ModelListing(model_id=str(root.resolve()), commit="", files=files, source="folder")

    def read(
        self,
        listing: ModelListing,
        path: str,
        *,
        start: int = 0,
        length: int | None = None,
        refresh: bool = False,
    ) -> bytes:
        with (self.folder(listing) / path).open("rb") as file:
            file.seek(start)
            return file.read(-1 if length is None else length)

    def read_into(
        self, listing: ModelListing, path: str, buffer: memoryview, *, start: int
    ) -> Iterator[BytesRead]:
        return fill_from(self.folder(listing) / path, buffer, start=start)

    def folder(self, listing: ModelListing) -> Path:
        return Path(listing.model_id)

    def missing(self, listing: ModelListing, files: Sequence[FileEntry]) -> int:
        return 0

    def require_space(self, listing: ModelListing, files: Sequence[FileEntry]) -> None:
        """The folder is the source itself: nothing is downloaded."""

    def fetch(
        self, listing: ModelListing, files: Sequence[FileEntry], *, key: str
    ) -> Generator[Progress, None, Path]:
        yield from ()
        return self.folder(listing)

    def recheck(
        self, listing: ModelListing, files: Sequence[FileEntry], *, key: str
    ) -> Generator[Progress, None, bool]:
        """The folder is the source itself: there are no copies of it."""
        yield from ()
        return False


def _files(model_id: str) -> tuple[Path, list[Path]]:
    root = Path(model_id).expanduser()
    if not root.is_dir():
        raise NotFound(
            f"{model_id}: no such folder",
            hint="check the path; for a model on the Hub write owner/name, without ./",
        )
    files = sorted(path for path in root.rglob("*") if path.is_file() and not _hidden(path, root))
    folder = root.resolve()
    for path in files:
        if path.is_symlink():
            _require_inside(path, folder)
    return root, files


def _require_inside(path: Path, folder: Path) -> None:
    """A link out of the folder would upload any file of this machine: the recipe may be a stranger's. In the Hub's
    cache the files of a snapshot are links to the blobs of the same model.
    """
    target = path.resolve()
    of_cache = folder.parent.name == "snapshots" and target.is_relative_to(folder.parents[1] / "blobs")
    if not (of_cache or target.is_relative_to(folder)):
        raise Refused(
            f"{path}: a link out of the model's folder, to {target}",
            hint="copy the file into the folder (cp -L), or delete the link",
        )


class LocalModelFiles:
    """The files of a listing in one local folder, for a listing of any model: the port Source."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read_into(
        self, listing: ModelListing, path: str, buffer: memoryview, *, start: int
    ) -> Iterator[BytesRead]:
        return fill_from(self._root / path, buffer, start=start)


def _hidden(path: Path, root: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(root).parts)


def _entry(path: Path, root: Path) -> FileEntry:
    name = path.relative_to(root).as_posix()
    if error := check_relative_path(name):
        raise IntegrityError(f"{path}: {error}", hint="rename the file")
    listed = FileEntry(path=name, size=path.stat().st_size, oid="", kind="sha256")
    return replace(listed, oid=hash_file(path, listed, lambda _: None))
