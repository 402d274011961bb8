"""What the contract tests of handlers share: a template in a folder, and a real worker that runs it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.support.engine import engine_dir
from tests.support.handler_driver import Worker

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"


@cache
def serving() -> Path:
    """The Python with torch and transformers that workers of these tests run on."""
    given = os.environ.get("LMI_TEST_SERVING_PYTHON")
    if given:
        return Path(given)
    from tests.support.serving import serving_python

    return serving_python()


@contextmanager
def worker(folder: Path, template: str, *, also: str = "") -> Iterator[Worker]:
    """A worker on the template, with `also` at the end of its code."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(TEMPLATES / template / "model.py", folder / "model.py")
    with (folder / "model.py").open("a") as code:
        code.write(also)
    with Worker(serving(), engine_dir(), folder) as running:
        yield running
