"""The wheel, built once, and what people get who install it: in environments of their own, bytecode compiled."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.measure import ROOT, checked

HOME = ROOT / ".build" / "bench"
_UV = str(Path(sys.executable).with_name("uv"))
_VERSIONS = (
    "import importlib.metadata as m, json; print(json.dumps({d.name: d.version for d in m.distributions()}))"
)


@dataclass(frozen=True, slots=True)
class Installed:
    """A virtual environment with nothing in it but lmi and what it needs."""

    home: Path

    @property
    def python(self) -> Path:
        return self.home / "bin" / "python"

    @property
    def lmi(self) -> Path:
        return self.home / "bin" / "lmi"

    @property
    def packages(self) -> Path:
        """site-packages."""
        (found,) = (self.home / "lib").glob("python*/site-packages")
        return found

    def versions(self) -> dict[str, str]:
        """Of every package, by name, and of what was measured: the commit that the wheel was built from."""
        found: dict[str, str] = json.loads(checked([self.python, "-c", _VERSIONS]))
        return {"commit": _commit(), **dict(sorted(found.items()))}


@cache
def installed(extra: str = "") -> Installed:
    """Anew for every run of the benchmarks: a package that is left over would be measured, too."""
    home = HOME / (extra or "core")
    checked([_UV, "venv", "--quiet", "--clear", "--python", sys.executable, home])
    required = f"{_wheel()}[{extra}]" if extra else str(_wheel())
    python = str(home / "bin" / "python")
    checked(
        [_UV, "pip", "install", "--quiet", "--compile-bytecode", "--python", python, *_source(), required]
    )
    return Installed(home)


@cache
def _wheel() -> Path:
    out = HOME / "wheel"
    shutil.rmtree(out, ignore_errors=True)
    checked([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT])
    (wheel,) = out.glob("*.whl")
    return wheel


def _source() -> list[str]:
    wheelhouse = os.environ.get("LMI_WHEELHOUSE")
    return ["--no-index", "--find-links", wheelhouse] if wheelhouse else []


def _commit() -> str:
    """`-dirty` where files differ from it; empty outside of a checkout."""
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        return ""
    return checked(["git", "describe", "--always", "--dirty", "--exclude", "*"]).strip()
