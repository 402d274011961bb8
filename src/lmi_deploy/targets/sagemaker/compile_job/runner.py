"""The program of a compile job: run the compiler, then list its result with hashes.

`runner.py INPUT MODEL OUTPUT REPORT [PROGRAM]`, in any image with a Python of 3.7 or newer, on the standard library
alone. INPUT is the folder with `order.json`: `words` are the arguments of the compiler, in which `{model}`, `{output}`
and `{input}` are these folders, `arguments` follow unchanged, `requirements` names a file in INPUT. The compiler is
PROGRAM, else `script.py` in INPUT. Exit status 0 only if it succeeded and wrote something.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path


def main(folder: str, model: str, output: str, report: str, program: str = "") -> int:
    order = json.loads(Path(folder, "order.json").read_text(encoding="utf-8"))
    started = time.monotonic()
    if order["requirements"]:
        install = [sys.executable, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "-r"]
        code = _run([*install, str(Path(folder, order["requirements"]))])
        if code:
            return _failed(f"the packages of compile.requirements were not installed: exit status {code}")
    places = {"{input}": folder, "{model}": model, "{output}": output}
    words = [places.get(word, word) for word in order["words"]]
    Path(output).mkdir(parents=True, exist_ok=True)
    compiler = program or str(Path(folder, "script.py"))
    code = _run([sys.executable, compiler, *words, *order["arguments"]])
    if code:
        return _failed(f"the compiler ended with exit status {code}", code)
    files = _hashed(Path(output))
    if not files:
        return _failed("the compiler ended with exit status 0, but wrote no file to its output folder")
    Path(report).parent.mkdir(parents=True, exist_ok=True)
    Path(report).write_text(json.dumps({"schema": 1, "files": files}), encoding="utf-8")
    _say(f"compiled: {len(files)} files in {time.monotonic() - started:.0f} s")
    return 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _run(command: list[str]) -> int:
    _say("+ " + " ".join(command))
    try:
        code = subprocess.call(command, stdin=subprocess.DEVNULL)
    except OSError as error:
        _say(f"{command[0]}: {error.strerror}")
        return 127
    return code if code >= 0 else 128 - code


def _failed(why: str, code: int = 1) -> int:
    """The message becomes the ExitMessage of a processing job: one kilobyte (CreateProcessingJob)."""
    _say(why)
    message = Path(os.environ.get("LMI_OPT_ML", "/opt/ml"), "output", "message")
    try:
        message.write_text(why, encoding="utf-8")
    except OSError as error:
        _say(f"{message}: {error.strerror}")
    return code


def _hashed(folder: Path) -> list[dict[str, object]]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [
        {"path": path.relative_to(folder).as_posix(), "size": path.stat().st_size, "sha256": _sha256(path)}
        for path in files
    ]


def _sha256(path: Path) -> str:
    sha256 = hashlib.sha256()
    with path.open("rb") as file:
        for chunk in iter(lambda: file.read(1 << 20), b""):
            sha256.update(chunk)
    return sha256.hexdigest()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
