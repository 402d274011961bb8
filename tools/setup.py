"""Make the environment of lmi: `python3 tools/setup.py .venv dev`, or `quickstart` without the tools of development.
Standard library only; runs on a bare Python.

The requirements are pinned with hashes. With LMI_WHEELHOUSE they come from that folder and nowhere else.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MINIMUM = (3, 11)
SETS = {"dev": "lmi and its tools, about 620 MB", "quickstart": "lmi, about 170 MB"}
"""What is installed, by the name of its file in `requirements/`."""


def main(target: str, chosen: str) -> int:
    if sys.version_info < MINIMUM:
        return _no(
            f"Python {'.'.join(map(str, MINIMUM))} or newer is needed, this is {sys.version.split()[0]}",
            "name another one: make PYTHON=python3.12 ...",
        )
    venv = (ROOT / target).resolve()
    python = venv / "bin" / "python"
    started = time.monotonic()
    print(f"setting up {venv.name}: {SETS[chosen]}, about half a minute", flush=True)
    try:
        _make(venv, python)
        _install(python, ROOT / "requirements" / f"{chosen}.txt")
    except subprocess.CalledProcessError as failed:
        return _no(
            f"{' '.join(map(str, failed.cmd[:4]))} ... ended with {failed.returncode}",
            "its own words are above; is the package index within reach? (LMI_WHEELHOUSE for places without)",
        )
    print(f"set up in {time.monotonic() - started:.0f} s", flush=True)
    return 0


def _make(venv: Path, python: Path) -> None:
    if python.exists():
        return
    try:
        import ensurepip  # noqa: F401  (Debian ships venv without it)
    except ImportError:
        sys.exit(_no("this Python has no ensurepip", "on Debian and Ubuntu: apt-get install python3-venv"))
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)


def _install(python: Path, requirements: Path) -> None:
    pins = requirements.read_text()
    source = package_source()
    # uv first, at its pinned version: it installs the rest in seconds.
    uv = next(line.split(" ")[0] for line in pins.splitlines() if line.startswith("uv=="))
    _pip(python, "install", "-q", "--disable-pip-version-check", *source, uv)
    run = [str(python), "-m", "uv", "pip", "install", "-q", "--python", str(python), *source]
    subprocess.run([*run, "--require-hashes", "-r", str(requirements)], check=True)
    subprocess.run([*run, "--no-deps", "--no-build-isolation", "-e", str(ROOT)], check=True)


def package_source() -> list[str]:
    wheelhouse = os.environ.get("LMI_WHEELHOUSE")
    return ["--no-index", "--find-links", wheelhouse] if wheelhouse else []


def _pip(python: Path, *arguments: str) -> None:
    subprocess.run([str(python), "-m", "pip", *arguments], check=True)


def _no(why: str, what_next: str) -> int:
    print(f"error: {why}\n  next: {what_next}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(*(sys.argv[1:] or (".venv", "dev"))))
