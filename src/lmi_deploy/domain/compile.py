"""A model that is compiled ahead of time: what decides the bytes of the result, and nothing else."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from lmi_deploy.domain.recipe_compile_keys import MODEL_ARGUMENT, OUTPUT_ARGUMENT
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.settings_digest import digest, digest_tag

Compiler = Literal["script", "partition", "optimization"]
"""The user's script; the partition program of a DJLServing image; an optimization job of SageMaker."""


@digest_tag("CompileSpec")
@dataclass(frozen=True, slots=True, kw_only=True)
class CompileSpec:
    """Two compiles with equal specs have the same result: only one is made."""

    weights: str
    """Commit and selection of the model's own files."""
    engine: str
    compiler: Compiler
    image: str
    """Repository and tag, without the registry: the same in every region."""
    device: str
    """The GPU that compiles, of which a TensorRT engine depends; empty for a CPU, and where any one does."""
    script: bytes = b""
    requirements: bytes = b""
    arguments: Pairs = ()
    options: Pairs = ()
    """Of the engine's own compiler."""

    @property
    def identity(self) -> str:
        """40 hex: the commit of the result, beside the commits of the model itself."""
        return digest(self)[:40]

    @property
    def title(self) -> str:
        """The compiler in a few words."""
        if self.compiler == "script":
            return "your script"
        return (
            "SageMaker's compiler"
            if self.compiler == "optimization"
            else f"the partition program of {self.engine}"
        )


def compile_command(script: str, model: str, output: str, arguments: Pairs) -> tuple[str, ...]:
    """The command line of a script, by its contract; without the interpreter."""
    pairs = (word for key, value in arguments for word in (f"--{key}", value))
    return (script, MODEL_ARGUMENT, model, OUTPUT_ARGUMENT, output, *pairs)


@dataclass(frozen=True, slots=True)
class CompiledFile:
    """A file of a result, as the machine that compiled it reported it."""

    size: int
    sha256: str


def read_report(text: bytes) -> dict[str, CompiledFile]:
    """By path. ValueError if it is not such a report."""
    try:
        found = json.loads(text)
        return {
            str(one["path"]): CompiledFile(int(one["size"]), str(one["sha256"])) for one in found["files"]
        }
    except (KeyError, TypeError, AttributeError) as reason:
        raise ValueError(f"not a report of a compile job: {reason}") from reason
