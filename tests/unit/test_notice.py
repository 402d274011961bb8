"""NOTICE names every file of data in the package, and nothing that is not there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOT_DATA = {".py", ".pyc"}


def test_each_packaged_data_file_has_its_source_and_licence() -> None:
    package = ROOT / "src" / "lmi_deploy"
    data = {
        path.relative_to(ROOT).as_posix()
        for path in package.rglob("*")
        if path.is_file() and path.suffix not in NOT_DATA and path.name != "py.typed"
    }
    named = re.findall(r"src/lmi_deploy/[\w/]+\.\w+", (ROOT / "NOTICE").read_text(encoding="utf-8"))
    assert sorted(named) == sorted(data)
