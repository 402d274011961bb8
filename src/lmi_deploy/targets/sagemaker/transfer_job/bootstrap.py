"""The first thing that a job runs, on the standard library of the image's own Python (3.11 or newer) alone.

`start.py WHEELS ARGUMENT...` unpacks the wheels beside each other and is then `lmi ARGUMENT...`. They are unpacked, not
imported as archives: botocore reads its service models as files. Of a compiled package there may be a wheel for each
Python; the one for this Python is taken.
"""

from __future__ import annotations

import runpy
import sys
import tempfile
import zipfile
from pathlib import Path


def main(wheels: str, arguments: list[str]) -> None:
    """Exit the process with the command's exit code."""
    with tempfile.TemporaryDirectory(prefix="lmi-") as room:
        for wheel in filter(_fits, sorted(Path(wheels).glob("*.whl"))):
            with zipfile.ZipFile(wheel) as packed:
                packed.extractall(room)
        sys.path.insert(0, room)
        sys.argv = ["lmi", *arguments]
        runpy.run_module("lmi_deploy", run_name="__main__")


def _fits(wheel: Path) -> bool:
    """By the last three parts of its name: Python, ABI and platform (Binary Distribution Format, PyPA)."""
    tags = wheel.stem.split("-")[-3].split(".")
    return "py3" in tags or f"cp{sys.version_info.major}{sys.version_info.minor}" in tags


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
