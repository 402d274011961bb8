"""The compiled packages of the load client for another Python: by pip, from a folder in place of a registry."""

from __future__ import annotations

import os
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from lmi_deploy.errors import TransferFailed
from lmi_deploy.host.background_processes import LocalProcesses
from lmi_deploy.host.clock import SystemClock
from lmi_deploy.runtimes.compiled_wheels import NEEDED, compiled_wheels

pytestmark = pytest.mark.landing

PYTHON = "3.13"


def offline(links: Path) -> dict[str, str]:
    return {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(links), "PIP_NO_CACHE_DIR": "1"}


def write_wheel(folder: Path) -> str:
    """A package of the right name, version and tags."""
    version = metadata.version(NEEDED)
    name = f"{NEEDED}-{version}-cp313-cp313-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
    info = f"{NEEDED}-{version}.dist-info"
    with zipfile.ZipFile(folder / name, "w") as wheel:
        wheel.writestr(f"{NEEDED}/__init__.py", "")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {NEEDED}\nVersion: {version}\n")
        wheel.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp313-cp313-manylinux2014_x86_64\n",
        )
        wheel.writestr(f"{info}/RECORD", "")
    return name


def test_wheel_of_another_python_is_downloaded_once(tmp_path: Path) -> None:
    links, cache = tmp_path / "links", tmp_path / "cache"
    links.mkdir()
    name, processes = write_wheel(links), LocalProcesses(SystemClock())
    found = list(compiled_wheels((PYTHON,), cache, processes, offline(links), needed=PYTHON))
    assert [path.name for path in found] == [name]
    (links / name).unlink()
    again = list(compiled_wheels((PYTHON,), cache, processes, offline(links), needed=PYTHON))
    assert again == found


def test_wheel_that_pip_does_not_find_is_an_error_with_the_command_that_gets_it(tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    processes, environ = LocalProcesses(SystemClock()), offline(tmp_path / "links")
    with pytest.raises(TransferFailed) as raised:
        list(compiled_wheels((PYTHON,), tmp_path / "cache", processes, environ, needed=PYTHON))
    assert f"{NEEDED}=={metadata.version(NEEDED)} for Python {PYTHON} on Linux" in raised.value.message
    assert "set PIP_FIND_LINKS" in raised.value.hint
    assert list(compiled_wheels((PYTHON,), tmp_path / "cache", processes, environ, needed="3.11")) == []
