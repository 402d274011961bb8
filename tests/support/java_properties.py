"""Real Java's `Properties`: one JVM for any number of files."""

from __future__ import annotations

import base64
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SOURCE = Path(__file__).with_name("PropertiesEcho.java")


class JavaProperties:
    """Sends files to a running PropertiesEcho."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def read(self, file: bytes) -> dict[str, str] | None:
        """The file as Java reads it; None where Java refuses it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(base64.b64encode(file).decode("ascii") + "\n")
        self._process.stdin.flush()
        state, *pairs = self._process.stdout.readline().split()
        split = (pair.split("=", 1) for pair in pairs)
        return {_text(key): _text(value) for key, value in split} if state == "read" else None


def java() -> str | None:
    """A java that works, if there is one; macOS has a stub that does not."""
    found = shutil.which("java")
    if found and subprocess.run([found, "-version"], capture_output=True, check=False).returncode == 0:
        return found
    return None


@contextmanager
def java_properties(command: str) -> Iterator[JavaProperties]:
    """Start the program, and end it by closing its input."""
    with subprocess.Popen(
        [command, "-XX:TieredStopAtLevel=1", str(SOURCE)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="ascii",
    ) as process:
        yield JavaProperties(process)


def _text(encoded: str) -> str:
    units = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    return units.decode("utf-16-be", "surrogatepass")
