"""Run the tests on the other Pythons that lmi supports: `python -m tools.pythons [3.12 ...] [--newest] [--functional]`.

Which there are: the classifiers in pyproject.toml. Which are to be had here: on PATH, or among those of pyenv and uv.
Each gets an environment of its own below .build/, as requirements/dev.txt pins it. One that is not to be had is named
and passed over, except where it was asked for by name.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from tools.pinned_environment import BUILD, ROOT, UV

QUICK = ("tests/unit", "tests/golden", "--dist", "loadfile")
FUNCTIONAL = (
    "tests/functional",
    "--ignore=tests/functional/sagemaker/test_crash_matrix.py",
    "--dist",
    "loadfile",
)


def main() -> int:
    arguments = _parser().parse_args()
    suites = (QUICK, FUNCTIONAL) if arguments.functional else (QUICK,)
    failed: list[str] = []
    missing: list[str] = []
    for version in arguments.versions or other_versions()[:: -1 if arguments.newest else 1]:
        python = interpreter(version)
        if python is None:
            print(f"== Python {version}: not on this machine", flush=True)
            missing.append(version)
            continue
        if not _tests_pass(version, python, suites):
            failed.append(version)
        if arguments.newest:
            break
    if failed:
        print(f"== failed on Python {', '.join(failed)}", flush=True)
    return 1 if failed or (missing and arguments.versions) else 0


def other_versions() -> list[str]:
    """The versions that pyproject.toml promises, without the one that runs this."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    promised = [
        re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line) for line in project["classifiers"]
    ]
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    return [found[1] for found in promised if found and found[1] != here]


def interpreter(version: str) -> Path | None:
    """A Python of this version that runs: the shims of pyenv are on PATH also for versions that are not active."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    of_pyenv = sorted(pyenv.glob(f"{version}.*/bin/python{version}"))
    on_path = shutil.which(f"python{version}")
    for candidate in [*of_pyenv, *([Path(on_path)] if on_path else []), *_of_uv(version)]:
        asked = subprocess.run(
            [str(candidate), "-c", "import ensurepip, ssl, sys; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True,
            text=True,
            check=False,
        )
        if asked.returncode == 0 and asked.stdout.strip() == version:
            return candidate
    return None


def _of_uv(version: str) -> list[Path]:
    found = subprocess.run(
        [*UV, "python", "find", "--no-python-downloads", version], capture_output=True, text=True, check=False
    )
    return [Path(found.stdout.strip())] if found.returncode == 0 else []


def _tests_pass(version: str, python: Path, suites: tuple[tuple[str, ...], ...]) -> bool:
    digest = hashlib.sha256((ROOT / "requirements" / "dev.txt").read_bytes()).hexdigest()[:10]
    folder = BUILD / f"python-{version}-env-{digest}"
    if not (folder / ".ready").exists():
        code = subprocess.run(
            [str(python), str(ROOT / "tools" / "setup.py"), str(folder), "dev"], check=False
        ).returncode
        if code:
            return False
        (folder / ".ready").touch()
    own = folder / "bin" / "python"
    for tests in suites:
        print(f"== Python {version}: {tests[0]} ...", flush=True)
        command = [str(own), "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", *tests]
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            return False
    return True


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.pythons", description=__doc__)
    parser.add_argument("versions", nargs="*", help="these alone, and each must be to be had: 3.12")
    parser.add_argument("--newest", action="store_true", help="only the newest of those that are here")
    parser.add_argument(
        "--functional", action="store_true", help="the functional tests too, four minutes each"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
