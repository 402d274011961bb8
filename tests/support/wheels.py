"""Wheels made on the spot: a package of one module, installable, of no use."""

from __future__ import annotations

import zipfile
from pathlib import Path


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
