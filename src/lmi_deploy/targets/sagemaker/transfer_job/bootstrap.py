"""The first thing that a transfer job runs, on the standard library of the image's own Python (3.11 or newer) alone.

`start.py WHEELS ARGUMENT...` unpacks the wheels beside each other and is then `lmi weights job ARGUMENT...`. They are
unpacked, not imported as archives: botocore reads its service models as files.
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
        for wheel in sorted(Path(wheels).glob("*.whl")):
            with zipfile.ZipFile(wheel) as packed:
                packed.extractall(room)
        sys.path.insert(0, room)
        sys.argv = ["lmi", "weights", "job", *arguments]
        runpy.run_module("lmi_deploy", run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
