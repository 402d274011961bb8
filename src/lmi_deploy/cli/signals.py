"""SIGTERM (a cancelled CI job) and SIGHUP (a closed terminal) end a command as Ctrl-C does."""

from __future__ import annotations

import signal
import sys
import weakref
from collections.abc import Sequence
from typing import Any, Final

_OWN_ENDING: Final = frozenset({"serve", "emulator", "hub", "chat"})
"""Commands that pass signals on to the server that they wait for; and `chat`, in which Ctrl-C ends only an answer."""
_DEFAULTS: Final = (signal.SIG_DFL, signal.default_int_handler)
_CHECK: Final = 1.0
"""Seconds after which to check whether the command is really exiting."""


class Signalled(KeyboardInterrupt):
    """Not KeyboardInterrupt itself: if one passes through an `exec` (which creates each dataclass), Python exits by
    SIGINT, whatever exit code was set (CPython's run_eval_code_obj and Py_RunMain).
    """


class _Ending:
    """The first signal raises Signalled in the main thread. A second SIGTERM or SIGHUP (a CI system sends several)
    then does not interrupt the clean-up that releases the lock and prints the state; only Ctrl-C does.
    """

    def __init__(self) -> None:
        self._raised: weakref.ref[Signalled] | None = None

    def signalled(self, number: int, frame: Any) -> None:
        if self._raised is None or number == signal.SIGINT or self._is_swallowed:
            self._end()

    def check(self, number: int, frame: Any) -> None:
        """Python drops exceptions raised in a finalizer or a callback of the garbage collector."""
        if self._is_swallowed:
            self._end()

    @property
    def _is_swallowed(self) -> bool:
        """An exception that is being raised or handled still has a reference; a dropped one has none."""
        return self._raised is not None and self._raised() is None

    def _end(self) -> None:
        raised = Signalled()
        self._raised = weakref.ref(raised)
        signal.setitimer(signal.ITIMER_REAL, _CHECK, _CHECK)
        raise raised


def end_as_ctrl_c(argv: Sequence[str]) -> None:
    """A signal that the parent process ignores (nohup) stays ignored."""
    if {*argv[:1]} & _OWN_ENDING:
        return
    suffix, notify = _Ending(), sys.unraisablehook

    def hook(unraisable: Any) -> None:
        if unraisable.exc_type is not Signalled:
            notify(unraisable)

    sys.unraisablehook = hook
    signal.signal(signal.SIGALRM, suffix.check)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) in _DEFAULTS:
            signal.signal(number, suffix.signalled)


def ignore_at_exit() -> None:
    """The exit code is decided. Python's own exit would restore the default handlers, and a signal could still change
    it.
    """
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
