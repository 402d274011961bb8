"""Stand-in for the compilers of the DJLServing images: `partition.py`, and SageMaker's entry points beside it.

It takes what they take, by the variables SM_NEO_... (an optimization job) or by arguments (a processing job). Without a
degree that is a number it fails as they do. It compiles nothing: the model's files stay as they are, with the settings
that a result would have beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from pathlib import Path

NEO = ("SM_NEO_INPUT_MODEL_DIR", "SM_NEO_COMPILED_MODEL_DIR", "SM_NEO_COMPILATION_ERROR_FILE")


def main() -> None:
    if os.environ.get("SM_NEO_EXECUTION_CONTEXT"):
        model, output, errors = (Path(os.environ[name]) for name in NEO)
        options = {
            name.removeprefix("OPTION_").lower(): value
            for name, value in os.environ.items()
            if name.startswith("OPTION_")
        }
        try:
            write_result(model, output, options)
        except ValueError as error:
            errors.write_text(json.dumps({"error": repr(error)}), encoding="utf-8")
            raise
        return
    parser = argparse.ArgumentParser()
    for name in ("--model-dir", "--model-id", "--save-mp-checkpoint-path", "--tensor-parallel-degree"):
        parser.add_argument(name, required=True)
    given = parser.parse_args()
    lines = Path(given.model_dir, "serving.properties").read_text(encoding="utf-8").splitlines()
    pairs = dict(line.split("=", 1) for line in lines if line.startswith("option."))
    options = {name.removeprefix("option."): value for name, value in pairs.items()}
    options["tensor_parallel_degree"] = given.tensor_parallel_degree
    write_result(Path(given.model_id), Path(given.save_mp_checkpoint_path), options)


def write_result(model: Path, output: Path, options: dict[str, str]) -> None:
    degree = options.get("tensor_parallel_degree", "")
    if not degree.isdigit():
        raise ValueError(f"option.tensor_parallel_degree: {degree!r} is not a number")
    shutil.copytree(model, output, dirs_exist_ok=True)
    for rank in range(int(degree)):
        path = output / "compiled" / f"rank-{rank}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(options, sort_keys=True), encoding="utf-8")
    sys.stdout.write(f"Partitioning done for {degree} devices.\n")


if __name__ == "__main__":
    main()
