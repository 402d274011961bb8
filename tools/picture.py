"""`make picture`: run the quickstart's commands for real and draw what they print as docs/quickstart.svg.

docs/quickstart.txt is the same as text; the end-to-end tests run the commands again and compare it, numbers masked.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.quickstart import PROMPT, RECIPE, sample_hub, say

ROOT = Path(__file__).resolve().parents[1]
TEXT = ROOT / "docs" / "quickstart.txt"
PICTURE = ROOT / "docs" / "quickstart.svg"
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("validate", RECIPE),
    ("up", "--yes", RECIPE),
    ("invoke", "--stream", "quickstart", PROMPT),
    ("status", "quickstart"),
    ("down", "--yes", "quickstart"),
)
_WIDTH = 118
_PASSING = re.compile(r"^    ([\d.,]+ (B|kB|MB|GB|s)|\d+ min)\b.*\n", re.MULTILINE)


def transcript(lmi: Sequence[str], environment: dict[str, str]) -> str:
    """What the commands print, stdout and stderr as a terminal would mix them; each must succeed."""
    parts = []
    for command in COMMANDS:
        done = subprocess.run(
            [*lmi, *command], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False,
        )  # fmt: skip
        shown = " ".join(f'"{word}"' if " " in word else word for word in command)
        parts.append(f"$ lmi {shown}\n{_PASSING.sub('', done.stdout)}")
        if done.returncode:
            raise SystemExit(f"{parts[-1]}\nerror: lmi {shown} ended with {done.returncode}")
    return "\n".join(parts)


def masked(text: str) -> str:
    """The same with every number, digest and path that differs from run to run replaced."""
    text = re.sub(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8,40}\b", "<hex>", text)
    return re.sub(r"\d+([.,:]\d+)*( ?(kB|MB|GB|TB|B|s|min)\b)?", "<n>", text)


def draw(text: str) -> str:
    """The picture of a text, the same for the same text."""
    from rich.console import Console
    from rich.text import Text

    console = Console(
        record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    for line in text.splitlines():
        console.print(Text(line, style="bold green" if line.startswith("$ ") else ""), soft_wrap=False)
    return console.export_svg(title="lmi", unique_id="lmi-quickstart")


def main() -> int:
    with sample_hub() as address, tempfile.TemporaryDirectory() as state:
        environment = {**os.environ, "HF_ENDPOINT": address, "LMI_STATE_HOME": state, "COLUMNS": str(_WIDTH)}
        text = transcript([sys.executable, "-m", "lmi_deploy.cli"], environment)
    TEXT.write_text(text)
    PICTURE.write_text(draw(text))
    say(f"{PICTURE.relative_to(ROOT)} and {TEXT.name} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
