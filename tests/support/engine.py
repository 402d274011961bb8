"""DJL's own Python engine, unpacked into the tool's cache: what every worker of the tests runs."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

VERSION = "0.34.0"
COORDINATES = ("ai.djl.python", "python")
SHA256 = "15f36119dcce8921225a7e189c9766401f4cd29a66eef08578e8a3be5a5da6c0"


def cache_home() -> Path:
    """Where the tool keeps what it downloads; `LMI_CACHE_HOME` moves it."""
    return Path(os.environ.get("LMI_CACHE_HOME") or "~/.cache/lmi").expanduser()


def engine_dir() -> Path:
    """The folder with `djl_python_engine.py`; fetched, checked and unpacked once, whoever asks first."""
    final = cache_home() / "engines" / f"djl-python-{VERSION}"
    if not final.is_dir():
        final.parent.mkdir(parents=True, exist_ok=True)
        with _alone(final.with_name(f".{final.name}.lock")):
            if not final.is_dir():
                _unpack(_checked(_jar()), final)
    return final


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _jar() -> Path:
    wheelhouse = os.environ.get("LMI_WHEELHOUSE")
    if wheelhouse:
        return Path(wheelhouse) / f"python-{VERSION}.jar"
    from jgo.maven import MavenContext

    group, artifact = COORDINATES
    return Path(MavenContext().project(group, artifact).at_version(VERSION).artifact().resolve())


def _checked(jar: Path) -> Path:
    seen = hashlib.sha256(jar.read_bytes()).hexdigest()
    if seen != SHA256:
        raise RuntimeError(f"{jar}: sha256 is {seen}, expected {SHA256}; remove the file and run again")
    return jar


def _unpack(jar: Path, final: Path) -> None:
    """Beside its place first, then renamed: nobody sees half an engine."""
    scratch = Path(tempfile.mkdtemp(prefix=f".{final.name}-", dir=final.parent))
    try:
        with zipfile.ZipFile(jar) as archive:
            archive.extractall(scratch)
        scratch.chmod(0o755)
        scratch.rename(final)
    except OSError:
        if not final.is_dir():  # else the tool itself was first
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
