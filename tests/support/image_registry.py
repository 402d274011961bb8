"""A registry program of Debian's (`docker-registry`), for images that are pushed to the emulator."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_START = 20.0
_CONFIG = """\
version: 0.1
log: {{level: warn}}
storage: {{filesystem: {{rootdirectory: {root}}}, delete: {{enabled: true}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""


@contextmanager
def image_registry(folder: Path) -> Iterator[str]:
    """Its address. Skips a test where the program is missing; under LMI_CI it must exist."""
    program = shutil.which("docker-registry")
    if program is None:
        if os.environ.get("LMI_CI") == "1":
            raise RuntimeError("docker-registry is not here: .ci/run installs it")
        pytest.skip("docker-registry is not here: apt-get install docker-registry")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config, log = folder / "registry.yml", folder / "registry.log"
    config.write_text(_CONFIG.format(root=folder / "registry", port=port))
    with log.open("wb") as output:
        process = subprocess.Popen([program, "serve", str(config)], stdout=output, stderr=output)
    try:
        _await(f"http://127.0.0.1:{port}/v2/", process, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(_START)


def _await(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"docker-registry did not start: {log.read_text()}")
