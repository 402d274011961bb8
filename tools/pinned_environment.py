"""An environment for one tool below .build/, as its file in `requirements/` pins it."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from tools.setup import package_source

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / ".build"
UV = (sys.executable, "-m", "uv")


def pinned_environment(name: str) -> Path:
    """The Python with what requirements/NAME.txt pins, made once for each set of pins. SystemExit if it cannot be."""
    pins = ROOT / "requirements" / f"{name}.txt"
    digest = hashlib.sha256(pins.read_bytes()).hexdigest()[:10]
    folder = BUILD / f"{name}-env-{digest}"
    python = folder / "bin" / "python"
    ready = folder / ".ready"
    if not ready.exists():
        try:
            make_venv(folder)
            install(python, "--require-hashes", "-r", str(pins))
        except subprocess.CalledProcessError as failed:
            sys.exit(
                f"error: the environment {folder.name} was not made (exit {failed.returncode})\n"
                "  next: is the package index within reach? (LMI_WHEELHOUSE for places without)"
            )
        ready.touch()
    return python


def make_venv(folder: Path) -> Path:
    subprocess.run([*UV, "venv", "-q", "--clear", "--python", sys.executable, str(folder)], check=True)
    return folder / "bin" / "python"


def install(python: Path, *arguments: str) -> None:
    command = [*UV, "pip", "install", "-q", "--python", str(python), *package_source(), *arguments]
    subprocess.run(command, check=True)
