"""DJL's Python engine, unpacked: it exists under its name only if it is complete."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from lmi_deploy.errors import IntegrityError
from lmi_deploy.host.disk import on_disk

SCRATCH = ".unfinished-"
_SCRIPT, _PACKAGE = "djl_python_engine.py", "djl_python"


def is_complete(folder: Path) -> bool:
    return (folder / _SCRIPT).is_file() and (folder / _PACKAGE).is_dir()


def unpack(jar: Path, folder: Path) -> None:
    """The engine's script and package from `jar`, into `folder`; a second process finds it there."""
    with scratch_folder(folder) as scratch:
        with zipfile.ZipFile(jar) as archive:
            for member in archive.infolist():
                if _is_included(member.filename):
                    archive.extract(member, scratch)
        if not is_complete(scratch):
            raise IntegrityError(
                f"{jar}: holds no {_SCRIPT} with {_PACKAGE}/", hint=f"remove {jar} and run again"
            )
        try:
            scratch.rename(folder)
        except OSError:
            if not is_complete(folder):
                raise


@contextmanager
def scratch_folder(folder: Path) -> Iterator[Path]:
    """A folder on the same disk, deleted at the end unless it was renamed."""
    with on_disk(folder.parent):
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=SCRATCH, dir=folder.parent))
        scratch.chmod(0o755)
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _is_included(name: str) -> bool:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name:
        raise IntegrityError(f"{name}: a jar of ours has no such member", hint="remove the jar and run again")
    return path.parts[:1] in ((_SCRIPT,), (_PACKAGE,)) and not name.endswith("/")
