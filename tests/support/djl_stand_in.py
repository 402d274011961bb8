"""An installation of the stand-in for DJLServing, with the layout of the real archive."""

from __future__ import annotations

import os
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("fake_djl_serving.py")
_START = """#!/bin/sh
# As the start script of the real one: a Java by JAVA_HOME or PATH, then in its place the server.
command -v "${{JAVA_HOME:+$JAVA_HOME/bin/}}java" >/dev/null || {{ echo "ERROR: no java"; exit 1; }}
exec {python} -I {program} "$@"
"""


def install(root: Path) -> dict[str, str]:
    """The variables under which lmi finds it. Its Java is a program that does nothing."""
    home, java = root / "serving", root / "java"
    _program(home / "bin" / "serving", _START.format(python=sys.executable, program=PROGRAM))
    _program(java / "bin" / "java", "#!/bin/sh\n")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("SERVING_", "JAVA_"))}
    return {**kept, "DJL_SERVING_HOME": str(home), "JAVA_HOME": str(java)}


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(text)
    path.chmod(0o755)
