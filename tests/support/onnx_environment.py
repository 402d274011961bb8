"""An interpreter with the serving environment's packages, ONNX's exporter and onnxruntime beside them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PACKAGES = (
    *("onnx==1.23.2", "onnxruntime==1.32.0", "onnxscript==0.7.2", "onnx-ir==1.1.0"),
    *("ml_dtypes==0.6.0", "flatbuffers==25.12.19"),
)


def onnx_python(folder: Path, serving: Path) -> Path:
    """Made in `folder`; nothing is added to the serving environment."""
    uv = [sys.executable, "-m", "uv"]
    subprocess.run([*uv, "venv", "-q", "--python", str(serving), str(folder)], check=True)
    python = folder / "bin" / "python"
    install = [*uv, "pip", "install", "-q", "--no-deps", "--python", str(python), *PACKAGES]
    subprocess.run(install, check=True)
    (own,) = folder.glob("lib/python*/site-packages")
    (other,) = serving.parent.parent.glob("lib/python*/site-packages")
    (own / "serving.pth").write_text(f"{other}\n")
    return python
