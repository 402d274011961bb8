"""Everything that CI checks, in order, each step timed: `python -m tools.check [step ...]`.

Without a step: all but those of `LARGE`, which install gigabytes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
PYTEST = [sys.executable, "-m", "pytest", "-q"]
INTEGRATION = ("tests/contract", "tests/integration", "tests/server", "tests/handlers")
WITH_AWS = ("tests/emulator", "tests/contract/sagemaker", "tests/integration/sagemaker")
WITHOUT_AWS = tuple(f"--ignore={folder}" for folder in WITH_AWS)
MATRIX = "tests/functional/sagemaker/test_crash_matrix.py"
REHEARSALS = "tests/e2e/test_rehearse.py"
STEPS: dict[str, list[list[str]]] = {
    "lint": [
        [str(BIN / "ruff"), "format", "--check", "."],
        [str(BIN / "ruff"), "check", "."],
        [str(BIN / "mypy")],
    ],
    "docs": [[sys.executable, "-m", "tools.site"]],
    "unit": [[*PYTEST, "tests/unit", "tests/golden", "-n", "2"]],
    # The newest other one: `make test-pythons` runs all.
    "pythons": [[sys.executable, "-m", "tools.pythons", "--newest"]],
    "contract": [
        [*PYTEST, *INTEGRATION, *WITHOUT_AWS, "-n", "2", "--dist", "loadfile"],
        # By themselves: the limits of the emulator's containers are in real seconds, and each is a process or three.
        # Three at a time: each waits for its processes for a sixth of its time.
        [*PYTEST, *WITH_AWS, "-n", "3", "--dist", "loadfile"],
    ],
    "functional": [
        [*PYTEST, "tests/functional", f"--ignore={MATRIX}", "-n", "2", "--dist", "loadfile"],
        # One file with a thousand cases: spread over both cores.
        [*PYTEST, MATRIX, "-n", "2"],
    ],
    "clients": [[*PYTEST, "tests/clients"]],
    "e2e": [
        [*PYTEST, "tests/e2e", f"--ignore={REHEARSALS}", "-n", "2", "--dist", "loadfile"],
        # Each waits more than it computes, and has a folder of its own.
        [*PYTEST, REHEARSALS, "-n", "2"],
    ],
    "engines": [[*PYTEST, "tests/engines"]],
}
LARGE = ("engines",)


def main(required: list[str]) -> int:
    unknown = [step for step in required if step not in STEPS]
    if unknown:
        print(f"no step {unknown[0]!r}; there are: {', '.join(STEPS)}", file=sys.stderr)
        return 2
    # In the background of a script SIGINT is ignored, and so it would be by every process of a test about Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "LMI_REPORT_SKIPS": "1"}
    for step in required or [step for step in STEPS if step not in LARGE]:
        started = time.monotonic()
        for command in STEPS[step]:
            print(f"== {step}: {' '.join(Path(word).name for word in command[:3])} ...", flush=True)
            code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
            if code:
                print(f"== {step} failed after {time.monotonic() - started:.0f} s", flush=True)
                return code
        print(f"== {step} passed in {time.monotonic() - started:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
