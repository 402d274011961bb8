"""A CI runner: a folder with a repository that has one recipe, and `lmi` on its PATH."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.support.emulator_process import Emulated
from tests.support.least_privilege import HANDLER, write_model

RECIPE = """\
name: echo
model_id: ./model
engine: custom
instance_type: ml.m5.xlarge
handler: {file: model.py}
probe: {body: '{"inputs": "OK"}'}
"""


@dataclass(frozen=True)
class CiRunner:
    folder: Path
    environment: dict[str, str]

    @classmethod
    def of(cls, aws: Emulated, folder: Path, *programs: Path, **more: str) -> Self:
        """`programs`: folders that come before that of `lmi` on the PATH."""
        write_model(folder / "model")
        (folder / "model.py").write_text(HANDLER)
        (folder / "recipe.yaml").write_text(RECIPE)
        path = os.pathsep.join([*map(str, programs), str(Path(sys.executable).parent), os.environ["PATH"]])
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "LMI_"))}
        return cls(folder, {**inherited, **aws.environment(folder), **more, "PATH": path})

    def bash(self, *arguments: str, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", *arguments],
            cwd=self.folder,
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            timeout=120,
        )
