"""DJL's Python engine: from Maven Central by its coordinates (through jgo), verified, and unpacked."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from lmi_deploy.errors import IntegrityError, NotInstalled, TransferFailed, UsageRefused
from lmi_deploy.host.disk import on_disk

SCRATCH = ".unfinished-"
_SCRIPT, _PACKAGE = "djl_python_engine.py", "djl_python"
GROUP, ARTIFACT = "ai.djl.python", "python"
SHA256 = {
    # Of the jar as Maven Central gave it on 2026-11-21 (217,842 bytes).
    "0.34.0": "15f36119dcce8921225a7e189c9766401f4cd29a66eef08578e8a3be5a5da6c0",
}


def engine_jar(version: str, *, environ: Mapping[str, str], scratch: Path) -> Path:
    """The verified jar: from the user's local Maven repository, else downloaded into `scratch`, where it may stay."""
    try:
        from jgo.maven import MavenContext
    except ImportError as exc:
        raise NotInstalled("jgo") from exc
    local = Path(environ.get("M2_REPO") or "~/.m2/repository").expanduser()
    # jgo writes in place: in the user's own repository a kill would leave an incomplete jar, so it is only read.
    context = MavenContext(repo_cache=scratch, local_repos=[local])
    try:
        jar = Path(context.project(GROUP, ARTIFACT).at_version(version).artifact().resolve())
    # RuntimeError is jgo's "not found"; the errors of its HTTP library are OSErrors.
    except (OSError, RuntimeError) as exc:
        raise TransferFailed(
            f"{GROUP}:{ARTIFACT}:{version}: could not be downloaded from Maven Central",
            hint="check that Maven Central is reachable, or set LMI_WHEELHOUSE to a folder that contains "
            f"{ARTIFACT}-{version}.jar",
            details=[str(exc)],
        ) from exc
    return checked(jar, version)


def wheelhouse_jar(version: str, wheelhouse: Path) -> Path:
    """The checked jar out of a folder; nothing is fetched."""
    jar = wheelhouse / f"{ARTIFACT}-{version}.jar"
    if not jar.is_file():
        raise TransferFailed(
            f"{jar}: not found; lmi downloads nothing while LMI_WHEELHOUSE is set",
            hint=f"put {GROUP}:{ARTIFACT}:{version} from Maven Central there under that name",
        )
    return checked(jar, version)


def checked(jar: Path, version: str) -> Path:
    """`jar`, if its hash is the pinned one."""
    if version not in SHA256:
        raise UsageRefused(
            f"DJL's Python engine {version}: lmi knows no checksum of it", hint=f"use {', '.join(SHA256)}"
        )
    with jar.open("rb") as handle:
        actual = hashlib.file_digest(handle, "sha256").hexdigest()
    if actual != SHA256[version]:
        raise IntegrityError(
            f"{jar}: sha256 is {actual}, expected {SHA256[version]} for {GROUP}:{ARTIFACT}:{version}",
            hint=f"remove {jar}, if it is still there, and run the same command again",
        )
    return jar


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
                f"{jar}: contains no {_SCRIPT} with {_PACKAGE}/", hint=f"remove {jar} and run again"
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
        raise IntegrityError(f"{name}: not in lmi's own jar", hint="remove the jar and run again")
    return path.parts[:1] in ((_SCRIPT,), (_PACKAGE,)) and not name.endswith("/")
