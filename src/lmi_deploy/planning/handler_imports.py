"""The imports of a handler that no package provides: not Python, not DJL's engine, not the requirements."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from lmi_deploy.domain.djl_serving import MODEL_PY

_ALWAYS: Final = frozenset({"djl_python", "numpy", "psutil", "packaging", MODEL_PY.removesuffix(".py")})
_IMPORTED_AS: Final = {
    "beautifulsoup4": ("bs4",),
    "pillow": ("PIL",),
    "protobuf": ("google",),
    "pyyaml": ("yaml",),
    "python-dateutil": ("dateutil",),
    "opencv-python": ("cv2",),
    "opencv-python-headless": ("cv2",),
    "scikit-learn": ("sklearn",),
    "scikit-image": ("skimage",),
    "sentence-transformers": ("sentence_transformers", "torch", "transformers"),
    "faiss-cpu": ("faiss",),
    "attrs": ("attr", "attrs"),
}
"""Packages whose modules have other names."""
_PROVIDES: Final = {
    "torch": ("jinja2", "sympy", "networkx", "filelock", "fsspec", "typing_extensions", "mpmath"),
    "transformers": (
        "huggingface_hub",
        "tokenizers",
        "safetensors",
        "regex",
        "requests",
        "yaml",
        "tqdm",
        "filelock",
    ),
    "requests": ("urllib3", "certifi", "idna", "charset_normalizer"),
    "pandas": ("dateutil", "pytz"),
    "boto3": ("botocore", "s3transfer", "jmespath", "urllib3", "dateutil"),
    "scikit-learn": ("scipy", "joblib"),
    "pydantic": ("pydantic_core", "typing_extensions"),
}
"""The packages installed together with a package, as far as handlers use them."""
_NAME = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[[^]]*\])?\s*([<>=!~;@#].*)?$")


def missing_imports(
    tree: ast.Module, packages: Sequence[str], requirements: str
) -> Iterator[tuple[str, int]]:
    """Each missing module once, with its line; nothing if the requirements are unknown (a URL, a file)."""
    provided = _provided([*packages, *requirements.splitlines()])
    if provided is None:
        return
    reported: set[str] = set()
    for name, line in _imports(tree):
        if name not in provided and name not in reported:
            reported.add(name)
            yield name, line


def _provided(lines: Sequence[str]) -> set[str] | None:
    found = {*sys.stdlib_module_names, *_ALWAYS}
    for line in lines:
        text = line.split("#")[0].strip()
        if not text or text.startswith(("--hash", "--extra-index-url", "--index-url")):
            continue
        match = _NAME.match(text)
        if match is None:
            return None
        name = re.sub(r"[-_.]+", "-", match[1]).lower()
        found.update(_IMPORTED_AS.get(name, (match[1].replace("-", "_"), name.replace("-", "_"))))
        found.update(_PROVIDES.get(name, ()))
    return found


def _imports(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Top-level names of absolute imports, except those that the code expects to be missing."""
    expected = {
        id(node)
        for attempt in ast.walk(tree)
        if isinstance(attempt, ast.Try) and attempt.handlers
        for statement in attempt.body
        for node in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if id(node) in expected:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name.split(".")[0], node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0], node.lineno
