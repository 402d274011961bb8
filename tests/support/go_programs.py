"""Programs in Go, built from their modules once into the tool's cache by the first test that needs them."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.support.djl_engine import cache_home

_BUILD_SECONDS = 600


@dataclass(frozen=True, slots=True)
class GoProgram:
    """`package` is the import path of its main package; its last part is the name of the program."""

    package: str
    version: str

    @property
    def name(self) -> str:
        return self.package.rpartition("/")[2]

    def missing(self) -> str:
        """Why it is missing here; empty where it exists, or where Go can build it."""
        if self._place().exists() or shutil.which("go"):
            return ""
        return f"{self.name} is not built and there is no Go to build it with: install Go 1.24 or newer"

    def path(self) -> Path:
        final = self._place()
        if not final.exists():
            final.parent.mkdir(parents=True, exist_ok=True)
            with final.with_name(f".{final.name}.lock").open("w") as handle:
                fcntl.flock(handle, fcntl.LOCK_EX)
                if not final.exists():
                    self._build(final)
        return final

    def _place(self) -> Path:
        return cache_home() / "tools" / f"{self.name}-{self.version}"

    def _build(self, final: Path) -> None:
        scratch = Path(tempfile.mkdtemp(prefix=f".{self.name}-", dir=final.parent))
        try:
            subprocess.run(
                ["go", "install", f"{self.package}@{self.version}"],
                env={**os.environ, "GOBIN": str(scratch)},
                cwd=scratch,
                check=True,
                timeout=_BUILD_SECONDS,
            )
            (scratch / self.name).rename(final)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
