"""versitygw, an S3 server in Go on a folder: conditional writes, checksums and the expected owner as S3 has them."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.go_programs import GoProgram

PROGRAM = GoProgram("github.com/versity/versitygw/cmd/versitygw", "v1.8.0")
"""Its build takes about 90 s."""


@contextmanager
def running(root: Path, *, access: str, secret: str, tls: tuple[Path, Path] | None = None) -> Iterator[str]:
    """Its URL. `access` is the id of the account that owns what is created in it. `tls`: certificate and
    key."""
    data, metadata = root / "data", root / "metadata"
    data.mkdir(parents=True, exist_ok=True)
    metadata.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    certificate = ["--cert", str(tls[0]), "--key", str(tls[1])] if tls else []
    words = [str(PROGRAM.path()), "--port", f"127.0.0.1:{port}", "--quiet", "--keep-alive", *certificate]
    environ = {"PATH": os.environ["PATH"], "ROOT_ACCESS_KEY_ID": access, "ROOT_SECRET_ACCESS_KEY": secret}
    with (root / "versitygw.log").open("wb") as log:
        # Its attributes are stored in a folder beside: not every file system of a test machine supports them.
        program = subprocess.Popen(
            [*words, "posix", "--sidecar", str(metadata), str(data)], stdout=log, stderr=log, env=environ
        )
    try:
        _await_port(port, program, root / "versitygw.log")
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    finally:
        program.kill()
        program.wait()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _await_port(port: int, program: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if program.poll() is not None:
            raise RuntimeError(f"versitygw ended: {log.read_text()}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            program_wait(program, 0.02)
        else:
            return
    raise RuntimeError(f"versitygw does not listen: {log.read_text()}")


def program_wait(program: subprocess.Popen[bytes], seconds: float) -> None:
    """A short wait, or less if the program ends."""
    try:
        program.wait(seconds)
    except subprocess.TimeoutExpired:
        return
