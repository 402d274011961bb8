"""A plain installation has no optional packages: a command that needs one says in one line how to install
it."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import lmi_deploy
from lmi_deploy.errors import EXTRAS

pytestmark = pytest.mark.landing

ROOT = Path(__file__).parents[3]
SOURCE = Path(lmi_deploy.__file__).parent
WITHOUT = "import sys; sys.modules.update(dict.fromkeys({names!r})); from lmi_deploy.cli import main; main()"
OWN_PROGRAMS = (
    "server",
    "emulator",
    "hub/",
    "proxy",
    "inference_client",
    "aws/s3/uploaders/obstore_worker.py",
)
"""Started by commands that checked the package before, or with an interpreter that has it."""
RECIPE = (
    "name: tiny\nmodel_id: ./model\nengine: accelerate\ntask: text-generation\nendpoint: {target: local}\n"
)


def run(
    folder: Path, *argv: str, without: tuple[str, ...] = tuple(EXTRAS)
) -> subprocess.CompletedProcess[str]:
    (folder / "tiny.yaml").write_text(RECIPE)
    (folder / "model").mkdir(exist_ok=True)
    (folder / "model" / "config.json").write_text('{"model_type": "llama"}')
    (folder / "model" / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "HF_", "LMI_"))}
    return subprocess.run(
        [sys.executable, "-c", WITHOUT.format(names=without), *argv],
        cwd=folder,
        env={**kept, "HOME": str(folder), "XDG_CACHE_HOME": str(folder), "XDG_STATE_HOME": str(folder)},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )


@pytest.mark.parametrize(
    ("extra", "argv"),
    [
        ("local", ("up", "tiny.yaml", "--yes")),
        ("local", ("serve", "model")),
        ("emulator", ("emulator", "--port", "0")),
        ("hub", ("hub", "serve", ".", "--port", "0")),
        ("proxy", ("proxy", "--port", "0")),
        ("sagemaker", ("images", "--source", "sdk")),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_command_without_its_extra_says_how_to_install_it(
    extra: str, argv: tuple[str, ...], tmp_path: Path
) -> None:
    done = run(tmp_path, *argv)
    assert done.returncode == 2, done.stderr
    assert f"[{extra}]'" in done.stderr.partition("-m pip install ")[2]
    assert "a bug of lmi" not in done.stderr


def test_parquet_without_its_library_says_how_to_install_it(tmp_path: Path) -> None:
    asked = ("bench", "--url", "http://127.0.0.1:1", "--records", "r.parquet")
    done = run(tmp_path, *asked, without=("pyarrow",))
    assert done.returncode == 2, done.stderr
    assert "[parquet]', or name a file that ends with .jsonl" in done.stderr


def test_counting_tokens_without_its_library_says_how_to_install_it(tmp_path: Path) -> None:
    asked = ("bench", "--url", "http://127.0.0.1:1", "--input-tokens", "9", "--tokenizer", ".")
    (tmp_path / "tokenizer.json").write_text("{}")
    done = run(tmp_path, *asked, without=("tokenizers",))
    assert done.returncode == 2, done.stderr
    assert "the package tokenizers is not installed" in done.stderr
    assert "[bench]'" in done.stderr.partition("-m pip install ")[2]


@pytest.mark.parametrize("package", ["uv", "jgo"])
def test_missing_package_of_an_extra_is_named(package: str, tmp_path: Path) -> None:
    done = run(tmp_path, "up", "tiny.yaml", "--yes", without=(package,))
    assert done.returncode == 2, done.stderr
    assert f"the package {package} is not installed" in done.stderr


@pytest.mark.parametrize(
    "argv",
    [
        ("validate", "tiny.yaml"),
        ("plan", "tiny.yaml"),
        ("render", "tiny.yaml", "-o", "out"),
        ("ls",),
        ("status", "tiny.yaml"),
        ("down", "tiny.yaml", "--yes"),
        ("cache", "ls"),
    ],
)
def test_command_without_extras_runs_without_optional_packages(argv: tuple[str, ...], tmp_path: Path) -> None:
    done = run(tmp_path, *argv)
    assert done.returncode in (0, 4), done.stderr


def test_optional_packages_are_listed_and_imported_late() -> None:
    """The list of extras is that of pyproject.toml; no command module imports one at import time."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    listed = {word.split("[")[0].split(">")[0] for words in extras.values() for word in words}
    names = {package.replace("sagemaker", "sagemaker-core").replace("_", "-") for package in EXTRAS}
    assert names == listed - {"lmi-deploy"}
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        if not name.startswith(OWN_PROGRAMS):
            early = {module for module in _imported(path) if module in EXTRAS}
            assert not early, (name, early)


def _imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").split(".")[0])
    return found
