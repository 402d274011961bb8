"""`make recording`: record `up`, Ctrl-C, `up`, `invoke` and `down` on the emulator, in a terminal, as
docs/session.cast (asciinema's form), and draw it as docs/session.svg.

The commands and their times are real: only the typing is ours. The model runs in the emulator's stand-in for the
container, on this machine.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pty
import re
import select
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lmi_deploy.host.clock import SystemClock
from tools.quickstart import PROMPT, ROOT, sample_hub, say
from tools.session_picture import ROWS, session_svg

CAST: Final = ROOT / "docs" / "session.cast"
SVG: Final = ROOT / "docs" / "session.svg"
NAME: Final = "smollm2-g5"
TITLE: Final = "lmi up, Ctrl-C, up, invoke and down on the emulator"
DESCRIPTION: Final = (
    "A recorded terminal. `lmi up` shows its plan with the price, asks, creates the resources and waits for the "
    "endpoint. Ctrl-C interrupts it: lmi says what exists and how to continue. The second `lmi up` continues where the "
    "first one was, and sends a probe. `lmi invoke` gets an answer of the model. `lmi down` deletes everything."
)
WIDTH: Final = 100
_CTRL_C: Final = b"\x03"
_IDLE_LIMIT: Final = 2.0
_KEY: Final = 0.05
"""Seconds between two keys of the typed command line."""
_REDRAW: Final = 0.5
"""Seconds between two drawings of the moving line that are kept."""
_MOVING_LINE: Final = re.compile(r"\r\x1b\[2K[^\r\n]*")
_DEADLINE: Final = 900.0


@dataclass(frozen=True, slots=True)
class Keys:
    """Pressed `pause` seconds after the program has printed `after`."""

    after: str
    press: bytes
    pause: float = 1.0


@dataclass(frozen=True, slots=True)
class Step:
    """One command line as it is shown, and the keys that are pressed while it runs."""

    argv: tuple[str, ...]
    keys: tuple[Keys, ...] = ()
    code: int = 0

    @property
    def shown(self) -> str:
        return " ".join(f'"{word}"' if " " in word else word for word in self.argv)


CLOCK: Final = SystemClock()
YES: Final = Keys("[y/N] ", b"y\r")
STEPS: Final = (
    Step(("lmi", "up", f"{NAME}.yaml"), (YES, Keys("wait until", _CTRL_C, 4.0)), code=130),
    Step(("lmi", "up", f"{NAME}.yaml"), (YES,)),
    Step(("lmi", "invoke", NAME, PROMPT)),
    Step(("lmi", "down", NAME), (YES,)),
)


RecordedOutput = tuple[float, str, str]


def without_redraws(events: Sequence[RecordedOutput]) -> Iterator[RecordedOutput]:
    """Without most of what draws the moving line ten times a second: the next drawing erases it."""
    drawn = -_REDRAW
    for event in events:
        if _MOVING_LINE.fullmatch(event[2]):
            if event[0] - drawn < _REDRAW:
                continue
            drawn = event[0]
        yield event


@dataclass(slots=True)
class Recorder:
    """`programs`: what a first word of a command line runs."""

    programs: Mapping[str, Sequence[str]]
    environment: Mapping[str, str]
    folder: Path
    events: list[RecordedOutput] = field(default_factory=list)
    _start: float = field(default_factory=time.monotonic)

    def record(self, step: Step) -> None:
        """SystemExit, with what was printed, if it ends with another code."""
        self._type(step.shown)
        printed = "".join(self._run(step))
        code = self._code
        if code != step.code:
            raise SystemExit(f"{printed}\nerror: {step.shown}: exit code {code}, not {step.code}")

    _code: int = 0

    def cast(self) -> str:
        head = {
            "version": 2,
            "width": WIDTH,
            "height": ROWS,
            "idle_time_limit": _IDLE_LIMIT,
            "title": TITLE,
            "env": {"TERM": "xterm-256color"},
        }
        lines = [
            json.dumps(head),
            *(json.dumps([round(at, 3), kind, data]) for at, kind, data in without_redraws(self.events)),
        ]
        return "\n".join(lines) + "\n"

    def _add(self, text: str) -> None:
        self.events.append((time.monotonic() - self._start, "o", text))

    def _type(self, text: str) -> None:
        self._add("\x1b[1;32m$ \x1b[0m")
        for letter in text:
            CLOCK.sleep(_KEY)
            self._add(letter)
        CLOCK.sleep(4 * _KEY)
        self._add("\r\n")

    def _run(self, step: Step) -> Iterator[str]:
        first, *rest = step.argv
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(self.folder)
            os.execve(self.programs[first][0], [*self.programs[first], *rest], dict(self.environment))
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, WIDTH, 0, 0))
        pressing = _Pressing(list(step.keys))
        deadline = time.monotonic() + _DEADLINE
        while time.monotonic() < deadline:
            ready, _, _ = select.select([terminal], [], [], 0.05)
            if ready:
                text = _read(terminal)
                if not text:
                    break
                self._add(text)
                pressing.saw(text)
                yield text
            if keys := pressing.due():
                os.write(terminal, keys)
        os.close(terminal)
        _, status = os.waitpid(child, 0)
        self._code = os.waitstatus_to_exitcode(status)


class _Pressing:
    def __init__(self, keys: list[Keys]) -> None:
        self._keys, self._text, self._at = keys, "", 0.0

    def saw(self, text: str) -> None:
        self._text += text
        if self._keys and not self._at and self._keys[0].after in self._text:
            self._at = time.monotonic() + self._keys[0].pause

    def due(self) -> bytes:
        """The keys whose time has come; the next ones wait for what is printed after these."""
        if not self._at or time.monotonic() < self._at:
            return b""
        self._at, self._text = 0.0, ""
        return self._keys.pop(0).press


def _read(terminal: int) -> str:
    """Empty at the end of the program: Linux reports that as an error."""
    try:
        return os.read(terminal, 65536).decode(errors="replace")
    except OSError as reason:
        if reason.errno == errno.EIO:
            return ""
        raise


def draw(cast: str) -> str:
    return session_svg(cast, title=TITLE, description=DESCRIPTION)


def _environment(aws: Any, folder: Path, hub: str) -> dict[str, str]:
    variables = {**os.environ, **aws.environment(folder), "HF_ENDPOINT": hub, "TERM": "xterm-256color"}
    for name in ("NO_COLOR", "COLUMNS", "LINES", "LMI_AWS_REQUESTS"):
        variables.pop(name, None)
    return variables


def main() -> int:
    from tests.support.emulator_process import emulator
    from tests.support.serving_environment import serving_python

    with tempfile.TemporaryDirectory(prefix="lmi-recording-") as name, sample_hub() as hub:
        folder = Path(name)
        (folder / f"{NAME}.yaml").write_text((ROOT / "recipes" / f"{NAME}.yaml").read_text())
        flags = ("--python", str(serving_python()), "--speed", "20")
        with emulator(folder, *flags, containers=True, variables={"HF_ENDPOINT": hub}) as aws:
            recorder = Recorder(
                {"lmi": (sys.executable, "-P", "-m", "lmi_deploy")}, _environment(aws, folder, hub), folder
            )
            for step in STEPS:
                recorder.record(step)
    CAST.write_text(recorder.cast())
    SVG.write_text(draw(recorder.cast()))
    say(f"{CAST.relative_to(ROOT)} and {SVG.name} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
