"""A Python with DeepSpeed, which runs on a CPU as a library: built once, kept in lmi's cache.

Its version is the newest that was seen to build here (2026-11-22, 0.12.6 does not): without triton, whose absence makes
it build without CUDA, and outside of an isolated build, as its setup.py imports torch.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from lmi_deploy.domain.settings_digest import digest

PACKAGES: Final = (
    "accelerate==0.25.0",
    "huggingface_hub<0.26",
    "ninja==1.11.1.1",
    "numpy<2",
    "psutil==7.2.2",
    "pydantic==1.10.27",
    "sentencepiece==0.2.3",
    "setuptools<80",
    "torch==2.2.2",
    "transformers==4.36.2",
    "wheel",
)
DEEPSPEED: Final = "deepspeed==0.14.2"
_WITHOUT_TRITON: Final = "triton ; sys_platform == 'never'"
_BUILD: Final = {"DS_ACCELERATOR": "cpu", "DS_BUILD_OPS": "0"}


def deepspeed_python() -> Path:
    """4.3 GB on disk; some minutes the first time."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache = Path(os.environ.get("LMI_CACHE_HOME") or base / "lmi") / "test-engines"
    home = cache / f"deepspeed-{digest([*PACKAGES, DEEPSPEED])[:12]}"
    python, ready = home / "bin" / "python", home / ".ready"
    if not ready.exists():
        shutil.rmtree(home, ignore_errors=True)
        cache.mkdir(parents=True, exist_ok=True)
        overrides = cache / "deepspeed-overrides.txt"
        overrides.write_text(_WITHOUT_TRITON)
        _uv("venv", "--quiet", "--python", sys.executable, str(home))
        _uv("pip", "install", "--python", str(python), "--override", str(overrides), *PACKAGES)
        path = f"{home / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
        build = ("--override", str(overrides), "--no-build-isolation", DEEPSPEED)
        _uv("pip", "install", "--python", str(python), *build, environ={**_BUILD, "PATH": path})
        ready.touch()
    return python


def _uv(*arguments: str, environ: dict[str, str] | None = None) -> None:
    from uv import find_uv_bin

    done = subprocess.run(
        [find_uv_bin(), *arguments],
        env={**os.environ, **(environ or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
