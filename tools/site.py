"""`make docs`: build the site of docs/ strictly, in an environment of its own below .build/.

A link that leads nowhere, an anchor that is missing and a page that the navigation does not reach are errors.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from tools.setup import package_source

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PINS = ROOT / "requirements" / "docs.txt"
BUILD = ROOT / ".build"


def main() -> int:
    try:
        python = environment()
    except subprocess.CalledProcessError as failed:
        print(f"error: the environment for the site was not made (exit {failed.returncode})", file=sys.stderr)
        print(
            "  next: is the package index within reach? (LMI_WHEELHOUSE for places without)", file=sys.stderr
        )
        return 1
    target = BUILD / "site"
    shutil.rmtree(target, ignore_errors=True)
    build = [
        str(python),
        "-m",
        "sphinx",
        "-q",
        "-E",
        "-W",
        "--keep-going",
        "-n",
        "-b",
        "html",
        str(DOCS),
        str(target),
    ]
    code = subprocess.run(build, cwd=ROOT, check=False).returncode
    if code == 0:
        print(f"the site: {(target / 'index.html').relative_to(ROOT)}")
    return code


def environment() -> Path:
    """The Python that has Sphinx as requirements/docs.txt pins it; it is made once for each set of pins."""
    digest = hashlib.sha256(PINS.read_bytes()).hexdigest()[:10]
    folder = BUILD / f"docs-env-{digest}"
    python = folder / "bin" / "python"
    ready = folder / ".ready"
    if not ready.exists():
        uv = [sys.executable, "-m", "uv"]
        subprocess.run([*uv, "venv", "-q", "--clear", "--python", sys.executable, str(folder)], check=True)
        install = [*uv, "pip", "install", "-q", "--python", str(python), *package_source()]
        subprocess.run([*install, "--require-hashes", "-r", str(PINS)], check=True)
        ready.touch()
    return python


if __name__ == "__main__":
    sys.exit(main())
