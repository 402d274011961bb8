"""A small container image for podman: this interpreter, the modules it needs, and the stand-in for
DJLServing."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("fake_djl_serving.py")
FLAGS = "--runtime runc --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 --network host"
"""Needed on a machine that is itself a sandbox: crun fails there, limits cannot be raised, networks not
created."""
_FOLDERS = ("tmp", "opt/ml/model", "proc", "sys", "dev", "etc", "run")
_LIST = """
import runpy, sys, traceback, linecache, tokenize, encodings.idna, encodings.utf_8, encodings.latin_1, encodings.ascii
runpy.run_path(sys.argv[1], run_name="listed")
print("\\n".join(sorted({m.__file__ for m in list(sys.modules.values()) if getattr(m, "__file__", None)})))
"""


def podman_environ() -> dict[str, str]:
    """The variables under which lmi finds podman. Skips a test where it is missing; under LMI_CI it must
    exist."""
    if shutil.which("podman") is None:
        if os.environ.get("LMI_CI") == "1":
            raise RuntimeError("podman is not here: .ci/run installs it")
        pytest.skip("podman is not here: apt-get install podman runc")
    return {"LMI_CONTAINER_FLAGS": FLAGS, **os.environ, "LMI_CONTAINER_ENGINE": "podman"}


@cache
def image(program: Path = PROGRAM) -> str:
    """The name of an image that runs the program; built once, and kept by podman until the interpreter, the program or
    this file changes."""
    engine = shutil.which("podman", path=podman_environ()["PATH"])
    assert engine is not None
    stamp = hashlib.sha256(
        program.read_bytes() + f"{sys.version}{_python()}".encode() + Path(__file__).read_bytes()
    ).hexdigest()[:10]
    base = "lmi-stand-in" if program == PROGRAM else f"lmi-{program.stem.replace('_', '-')}"
    name = f"localhost/{base}:{stamp}"
    lock = Path(tempfile.gettempdir(), f"lmi-stand-in-{os.getuid()}.lock")
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        existing = subprocess.run([engine, "image", "exists", name], check=False, capture_output=True)
        if existing.returncode != 0:
            _import(engine, name, program)
            _forget_others(engine, name)
    return name


def _import(engine: str, name: str, program: Path) -> None:
    entry = f'ENTRYPOINT ["{_python()}", "-I", "-S", "/serve.py"]'
    with tempfile.TemporaryDirectory() as scratch:
        tar = Path(scratch, "image.tar")
        with tarfile.open(tar, "w") as archive:
            for path in sorted(_files(program)):
                archive.add(os.path.realpath(path), arcname=path.lstrip("/"))
            archive.add(program, arcname="serve.py")
            for folder in _FOLDERS:
                entry_of = tarfile.TarInfo(folder)
                entry_of.type, entry_of.mode = tarfile.DIRTYPE, 0o1777
                archive.addfile(entry_of)
        done = subprocess.run(
            [engine, "import", "-q", "-c", entry, str(tar), name], check=False, capture_output=True, text=True
        )
    if done.returncode != 0:
        raise RuntimeError(f"podman import: {done.stderr}")


def _forget_others(engine: str, name: str) -> None:
    """Earlier stand-ins that no container uses."""
    listed = [
        engine,
        "images",
        "--filter",
        f"reference={name.partition(':')[0]}",
        "--format",
        "{{.Repository}}:{{.Tag}}",
    ]
    for other in subprocess.run(listed, check=False, capture_output=True, text=True).stdout.split():
        if other != name:
            subprocess.run([engine, "rmi", other], check=False, capture_output=True)


def remove_images(*, label: str) -> None:
    """Remove what a test has built: podman keeps images between runs."""
    listed = ["podman", "images", "--filter", f"label={label}", "--format", "{{.Id}}"]
    for built in subprocess.run(listed, check=False, capture_output=True, text=True).stdout.split():
        subprocess.run(["podman", "rmi", "--force", built], check=False, capture_output=True)


def _python() -> str:
    return os.path.realpath(sys.executable)


def _files(program: Path) -> Iterator[str]:
    listed = subprocess.run(
        [_python(), "-I", "-S", "-c", _LIST, str(program)], check=True, capture_output=True, text=True
    ).stdout.split()
    modules = [path for path in listed if Path(path).is_file() and Path(path) != program]
    # An interpreter finds its own library by os.py. From 3.13 on, collections.abc is loaded under another name at
    # start-up, and from its file where site does not run.
    library = Path(sysconfig.get_path("stdlib"))
    found = {_python(), str(library / "os.py"), str(library / "collections" / "abc.py"), *modules}
    for binary in [_python(), *(path for path in modules if path.endswith(".so"))]:
        output = subprocess.run(["ldd", binary], check=False, capture_output=True, text=True).stdout
        found |= set(re.findall(r"(/\S+) \(0x", output))
    yield from found
