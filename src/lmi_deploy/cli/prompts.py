"""Questions to the user before something is changed."""

from __future__ import annotations

import sys

from lmi_deploy.errors import Interrupted, UsageRefused


def can_ask() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(prompt: str, *, yes: bool, free: bool = False, kept: str = "nothing was changed") -> None:
    """Ask on a terminal; without one, the answer must be given by an option.

    Enter alone accepts only what is `free`: costs and deletions need an explicit yes. `kept` is what a refusal leaves
    unchanged.
    """
    if yes:
        return
    if not can_ask():
        raise UsageRefused("no terminal to ask for confirmation", hint="add --yes to confirm in advance")
    # Not click's own, of which some versions put a blank on stdout.
    sys.stderr.write(f"{prompt} {'[Y/n]' if free else '[y/N]'} ")
    sys.stderr.flush()
    ended: KeyboardInterrupt | None = None
    try:
        reply = sys.stdin.readline()
    except KeyboardInterrupt as end:
        reply, ended = "", end
    if not reply:  # Ctrl-D or Ctrl-C: the cursor is still on the line of the question
        sys.stderr.write("\n")
    word = reply.strip().lower()
    if word not in ("y", "yes") and not (free and reply and not word):
        raise Interrupted(f"not confirmed: {kept}", hint="run the command again and answer y") from ended
