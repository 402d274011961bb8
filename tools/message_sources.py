"""The pinned releases whose messages are read, and their source files. Nothing is installed or executed.

Wheels come from pip, sources jars from Maven. Not published there, and so not read: TensorRT-LLM (PyPI has only a
pointer), transformers-neuronx and vllm-neuron (empty placeholders), DJLServing's own Java (only its Python engine is on
Maven), Triton's C++.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PLATFORMS: Final = ("manylinux1", "manylinux2014", "manylinux_2_17", "manylinux_2_28", "manylinux_2_31")
_UNREAD: Final = (
    "/tests/",
    "/test/",
    "/testing/",
    "/benchmarks/",
    "/examples/",
    "/convert_",
    "conversion_",
    "/training/",
)


@dataclass(frozen=True, slots=True)
class Package:
    """`roots` are the top folders to read; versions go from old to new."""

    name: str
    versions: tuple[str, ...]
    roots: tuple[str, ...]
    licence: str = "Apache-2.0"
    maven: str = ""


PACKAGES: Final = (
    Package("vllm", ("0.6.3.post1", "0.8.4", "0.11.1", "0.15.1", "0.18.0", "0.23.0", "0.26.0"), ("vllm/",)),
    Package("transformers", ("4.51.3", "4.57.6", "5.5.0"), ("transformers/",)),
    Package("accelerate", ("1.6.0", "1.12.0"), ("accelerate/",)),
    Package("huggingface-hub", ("0.30.2", "0.36.0", "1.3.0"), ("huggingface_hub/",)),
    Package("optimum-neuron", ("0.2.2", "0.4.5"), ("optimum/",)),
    Package("safetensors", ("0.5.3", "0.6.2"), ("safetensors/",)),
    Package("tokenizers", ("0.21.4",), ("tokenizers/",)),
    Package("peft", ("0.18.0",), ("peft/",)),
    Package("sglang", ("0.5.9",), ("sglang/srt/",)),
    Package("compressed-tensors", ("0.13.0",), ("compressed_tensors/",)),
    Package("mistral-common", ("1.9.0",), ("mistral_common/",)),
    Package("sentence-transformers", ("5.2.0",), ("sentence_transformers/",)),
    Package("auto-gptq", ("0.7.1",), ("auto_gptq/",), "MIT"),
    Package(
        "sagemaker-huggingface-inference-toolkit", ("2.4.1",), ("sagemaker_huggingface_inference_toolkit/",)
    ),
    Package("multi-model-server", ("1.1.11",), ("mms/",)),
    Package("djl-python", ("0.25.0", "0.34.0"), ("djl_python/", "ai/djl/"), maven="ai.djl.python:python"),
    Package("djl-api", ("0.34.0", "0.36.0"), ("ai/djl/",), maven="ai.djl:api"),
)


def sources(package: Package, version: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Path and text of each source file; the release is downloaded to `folder` unless it is there."""
    for archive in _archives(package, version, folder):
        with zipfile.ZipFile(archive) as opened:
            for path in sorted(opened.namelist()):
                wanted = path.startswith(package.roots) and path.endswith((".py", ".java"))
                if wanted and not any(part in f"/{path}" for part in _UNREAD):
                    yield path, opened.read(path).decode("utf-8", "replace")


def _archives(package: Package, version: str, folder: Path) -> list[Path]:
    stem = package.maven.partition(":")[2] or package.name.replace("-", "_")
    pattern = f"{stem}-{version}-*"
    if not any(folder.glob(pattern)):
        print(f"{package.name} {version}", file=sys.stderr, flush=True)
        _fetch(package, version, folder)
    return sorted(folder.glob(pattern))


def _fetch(package: Package, version: str, folder: Path) -> None:
    if package.maven:
        copy = ["mvn", "-q", "-B", "dependency:copy", f"-DoutputDirectory={folder}"]
        subprocess.run([*copy, f"-Dartifact={package.maven}:{version}:jar:sources"], check=True)
        return
    platforms = [word for name in _PLATFORMS for word in ("--platform", f"{name}_x86_64")]
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:"]
    target = ["--python-version", "3.11", "--dest", str(folder)]
    subprocess.run([*pip, *platforms, *target, f"{package.name}=={version}"], check=True)
