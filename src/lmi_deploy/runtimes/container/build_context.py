"""The folder that an image is built from: its digest, and a copy of exactly what the digest covers."""

from __future__ import annotations

import hashlib
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lmi_deploy.domain.image_build import BuildContext
from lmi_deploy.domain.settings_digest import digest
from lmi_deploy.errors import DeployFailed, Unresolvable
from lmi_deploy.runtimes.container.dockerignore import IgnoreRules, parse_ignore_rules

_IGNORE: Final = ".dockerignore"


@dataclass(frozen=True, slots=True)
class _Entry:
    """One file, link or folder; `path` is relative, with `/`."""

    path: str
    kind: str
    """`file`, `program` (executable), `link` or `folder`."""
    size: int


def read_context(folder: Path, dockerfile: str) -> BuildContext:
    """Unresolvable, with the path, for a file that cannot be read, or that no image can contain."""
    root = folder.resolve()
    entries = _entries(root, dockerfile)
    found = [[entry.path, entry.kind, _content(root / entry.path, entry.kind)] for entry in entries]
    return BuildContext(
        folder=str(root),
        digest=digest(found),
        files=sum(entry.kind != "folder" for entry in entries),
        size=sum(entry.size for entry in entries),
    )


def copy_context(context: BuildContext, dockerfile: str, to: Path) -> None:
    """Into an empty folder. DeployFailed unless the copy is what the context says: the folder may have changed."""
    root = Path(context.folder)
    for entry in _entries(root, dockerfile):
        source, place = root / entry.path, to / entry.path
        if entry.kind == "folder":
            place.mkdir(exist_ok=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, place, follow_symlinks=False)
        if entry.kind in ("file", "program"):
            place.chmod(0o755 if entry.kind == "program" else 0o644)
    if read_context(to, dockerfile).digest != context.digest:
        raise DeployFailed(
            f"{root}: its files changed after the plan was made",
            hint="run the same command again: it plans with the new files",
        )


def _entries(root: Path, dockerfile: str) -> list[_Entry]:
    if not (root / dockerfile).is_file():
        raise Unresolvable(
            f"container.build: {root / dockerfile}: no such file",
            hint="write a Dockerfile there, or name it in container.dockerfile",
        )
    rules, ignore_files = _ignore_rules(root, dockerfile)
    found = (each for each in _walk(root, "", rules) if each.path not in ignore_files)
    kept = {each.path: each for each in found}
    if dockerfile not in kept:  # it is needed, even if it is ignored
        kept[dockerfile] = _entry(root, dockerfile)
    for above in {folder for path in kept for folder in Path(path).parents if folder != Path()}:
        kept.setdefault(above.as_posix(), _Entry(above.as_posix(), "folder", 0))
    return [kept[path] for path in sorted(kept)]


def _ignore_rules(root: Path, dockerfile: str) -> tuple[IgnoreRules, tuple[str, str]]:
    """Of `Dockerfile.dockerignore` if it exists (as BuildKit does), else of `.dockerignore`. The copy has neither."""
    names = (f"{dockerfile}{_IGNORE}", _IGNORE)
    found = next((root / name for name in names if (root / name).is_file()), None)
    try:
        text = found.read_text(encoding="utf-8") if found else ""
        return parse_ignore_rules(text), names
    except (OSError, ValueError) as reason:
        raise Unresolvable(f"container.build: {found}: {reason}", hint="correct the file") from None


def _walk(root: Path, folder: str, rules: IgnoreRules) -> Iterator[_Entry]:
    try:
        names = sorted(each.name for each in (root / folder).iterdir())
    except OSError as reason:
        raise _unreadable(root / folder, reason.strerror or str(reason)) from None
    for name in names:
        path = f"{folder}/{name}" if folder else name
        ignored = rules.ignores(path)
        if ignored and not rules.has_exceptions:
            continue
        is_folder = (root / path).is_dir() and not (root / path).is_symlink()
        if not ignored:
            yield _entry(root, path)
        if is_folder:
            yield from _walk(root, path, rules)


def _entry(root: Path, path: str) -> _Entry:
    try:
        found = (root / path).lstat()
    except OSError as reason:
        raise _unreadable(root / path, reason.strerror or str(reason)) from None
    if stat.S_ISLNK(found.st_mode):
        return _Entry(path, "link", 0)
    if stat.S_ISDIR(found.st_mode):
        return _Entry(path, "folder", 0)
    if stat.S_ISREG(found.st_mode):
        return _Entry(path, "program" if found.st_mode & stat.S_IXUSR else "file", found.st_size)
    raise _unreadable(root / path, "neither a file nor a folder nor a link")


def _content(path: Path, kind: str) -> str:
    if kind == "folder":
        return ""
    try:
        if kind == "link":
            return str(path.readlink())
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as reason:
        raise _unreadable(path, reason.strerror or str(reason)) from None


def _unreadable(path: Path, why: str) -> Unresolvable:
    return Unresolvable(
        f"container.build: {path}: {why}", hint="correct it, or name it in .dockerignore: then it is not read"
    )
