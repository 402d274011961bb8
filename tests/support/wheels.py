"""Generated wheels (a package of one module, installable, without function), and single wheels of others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tests.support.djl_engine import cache_home


def make_wheel(folder: Path, name: str, version: str = "1.0") -> Path:
    """`<name>-<version>-py3-none-any.whl` in `folder`; its module is `name` and has a `__version__`."""
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    about = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"__version__ = {version!r}\n",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: lmi tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in (*files, f"{about}/RECORD"))
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in {**files, f"{about}/RECORD": record}.items():
            archive.writestr(path, text)
    return wheel


def fetched(requirement: str) -> Path:
    """The wheel of `name==version` alone, without its dependencies: from LMI_WHEELHOUSE, else from the
    registry.

    It is kept in the tool's cache, so that it is downloaded once per machine.
    """
    name, _, version = requirement.partition("==")
    kept = cache_home() / "samples" / "wheels"
    pattern = f"{name.replace('-', '_')}-{version or '*'}-*.whl"
    local = sorted(kept.glob(pattern)) if version else []
    if not local:
        wheelhouse = os.environ.get("LMI_WHEELHOUSE")
        source = ["--no-index", "--find-links", wheelhouse] if wheelhouse else []
        with tempfile.TemporaryDirectory() as scratch:
            pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:"]
            subprocess.run([*pip, *source, "--dest", scratch, requirement], check=True)
            (wheel,) = Path(scratch).glob("*.whl")
            kept.mkdir(parents=True, exist_ok=True)
            extra = kept / f".{os.getpid()}-{wheel.name}"
            shutil.copy(wheel, extra)
            local = [extra.replace(kept / wheel.name)]
    return local[0]
