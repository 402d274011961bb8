"""`lmi`: the command line. Nothing slow is imported here: `main` already handles Ctrl-C, and a key press in a shell
waits for `cli/completer.py` alone.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys

COMPLETION = "_LMI_COMPLETE"
"""Of the environment of a key press: the shell that asks (`lmi completion`)."""
GC_THRESHOLD = 50_000
"""Objects more than before, until circles are searched for among them (Python's own: 700)."""


WINDOWS = (
    "lmi does not run on Windows: it needs Linux or macOS\n  next: install WSL (`wsl --install`), then run the "
    "same command there: https://learn.microsoft.com/windows/wsl"
)


def main() -> None:
    """The entry point: one boundary turns every outcome into an exit code."""
    if sys.platform == "win32":
        sys.exit(f"error: {WINDOWS}")
    if COMPLETION in os.environ:
        from lmi_deploy.cli.completer import answer

        answer(sys.argv[1:], os.environ)
        return
    from lmi_deploy.cli.signals import end_as_ctrl_c, ignore_at_exit

    try:
        end_as_ctrl_c(sys.argv[1:])
        from lmi_deploy.cli import streams
        from lmi_deploy.cli.command_group import COMMANDS, lmi
        from lmi_deploy.cli.error_boundary import run

        streams.open_outputs()
        if any(command in COMMANDS and not COMMANDS[command].reads for command in sys.argv[1:2]):
            streams.discard_when_closed()
        tune_gc()
        code = run(lmi, sys.argv[1:])
    except KeyboardInterrupt:  # outside of the boundary
        from lmi_deploy.cli.error_boundary import interrupted

        code = interrupted(sys.argv[1:])
    ignore_at_exit()
    sys.exit(code)


def tune_gc() -> None:
    """A command that calls AWS loads a million objects of botocore and frees almost none: garbage collections during
    and at the end of the command take 200 ms of the half second that it needs to start.
    """
    gc.set_threshold(GC_THRESHOLD)
    atexit.register(gc.freeze)
