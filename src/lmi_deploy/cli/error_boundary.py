"""The one place where an error becomes an exit code."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

import click

from lmi_deploy.cli.streams import discard_when_closed
from lmi_deploy.errors import (
    EXIT_CODES,
    UNBEGUN,
    Bug,
    DiskRefused,
    Interrupted,
    LmiError,
    NotInstalled,
    UsageRefused,
)
from lmi_deploy.ui.verbosity import VERBOSITY

if TYPE_CHECKING:  # pathlib takes 3 ms of `lmi --help`
    from pathlib import Path

JSON_FLAG = "--json"
_PROGRAM = "lmi"


def run(group: click.Group, argv: Sequence[str], *, given: object = None) -> int:
    """Run one command line; errors are shown in the format that the command line requests.

    `given` is the context's object: a `DependenciesFactory` in place of `composition`.
    """
    _open_streams()
    VERBOSITY.set("normal")  # a process may run several command lines
    if {*argv} == {"--version", JSON_FLAG}:
        return _version()
    try:
        outcome = _invoke(group, list(argv), given)
        sys.stdout.flush()
        return outcome if isinstance(outcome, int) else 0
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as problem:
        return _usage(problem, argv)
    except LmiError as error:
        return _report_error(error, argv)
    except (KeyboardInterrupt, EOFError, click.Abort):
        return interrupted(argv)
    except BrokenPipeError:
        # The reader went away (`lmi logs | head`): no error, and no complaint from the interpreter's own flush.
        discard_when_closed()
        _discard(sys.stdout)
        return 128 + signal.SIGPIPE
    except OSError as reason:
        return _full(reason, argv) if reason.errno in (errno.ENOSPC, errno.EDQUOT) else _bug(reason, argv)
    except Exception as bug:  # noqa: BLE001 (the boundary: any other exception is a bug, and is reported)
        # Until Python 3.12, a signal while a class is made becomes a RuntimeError.
        if isinstance(bug.__cause__, KeyboardInterrupt):
            return interrupted(argv)
        missing = NotInstalled.of(bug) if isinstance(bug, ModuleNotFoundError) else None
        return _report_error(missing, argv) if missing else _bug(bug, argv)


def _open_streams() -> None:
    """Replace closed streams (`>&-`) by one that discards; characters that stdout cannot encode are escaped."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:  # else the next opened file would get this number, and be written to as a stream
            os.open(os.devnull, os.O_RDWR)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (for the rest of the process)
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors in ("strict", "surrogateescape"):
        sys.stdout.reconfigure(errors="backslashreplace")


def _invoke(group: click.Group, argv: list[str], given: object) -> object:
    # Not `main`, which exits with 1 if the reader of a pipe has closed it, and prints its own text on Ctrl-C.
    with group.make_context(_PROGRAM, argv, obj=given) as context:
        return group.invoke(context)


def _report_error(error: LmiError, argv: Sequence[str]) -> int:
    from lmi_deploy.ui.view_selection import open_view

    _write_traceback(error)
    discard_when_closed()  # the exit code is the error's, whether anybody reads it or not
    try:
        view = open_view(as_json=JSON_FLAG in argv)
        view.fail(error)
        view.close()
    except OSError:
        # stdout cannot be written (`--json >/dev/full`): stderr shows the error, and the exit code matches.
        _discard(sys.stdout)
        with suppress(OSError):
            view = open_view(as_json=False)
            view.fail(error)
            sys.stderr.flush()
    return error.exit_code


def _write_traceback(error: BaseException) -> None:
    """With --debug: each exception that led to this one, with its place in the code, and no values of variables."""
    if VERBOSITY.get() != "debug":
        return
    import traceback

    from lmi_deploy.errors.url_redaction import mask_urls

    with suppress(OSError):
        for line in traceback.format_exception(error):
            sys.stderr.write(mask_urls(line))


def _discard(stream: TextIO) -> None:
    """Its buffered output is discarded, instead of an error message at the interpreter's exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _version() -> int:
    from lmi_deploy import __version__
    from lmi_deploy.cli.output_schema import VERSION
    from lmi_deploy.ui.view_selection import open_view

    open_view(as_json=True).result({"version": __version__, "json_output": VERSION})
    return 0


def _usage(error: click.ClickException, argv: Sequence[str]) -> int:
    error = _negative_number(error, argv) or error
    if JSON_FLAG in argv:
        misplaced = isinstance(error, click.NoSuchOption) and error.option_name == JSON_FLAG
        hint = f"write {JSON_FLAG} after the command: lmi COMMAND {JSON_FLAG}" if misplaced else "lmi --help"
        return _report_error(UsageRefused(error.format_message(), hint=hint), argv)
    error.show()
    return 2


def _negative_number(error: click.ClickException, argv: Sequence[str]) -> click.ClickException | None:
    """What an argument must be that got a negative number, which click reads as an option."""
    if not isinstance(error, click.NoSuchOption) or not error.option_name[1:2].isdigit() or error.ctx is None:
        return None
    given = next((each for each in argv if each.startswith(error.option_name)), error.option_name)
    arguments = [each for each in error.ctx.command.params if isinstance(each, click.Argument)]
    if not arguments:
        return None
    counted = isinstance(arguments[-1].type, click.types.IntParamType)
    use = "a whole number, 0 or more" if counted else "a value without the minus sign"
    return click.BadParameter(f"{given!r} is negative: use {use}", error.ctx, arguments[-1])


def interrupted(argv: Sequence[str]) -> int:
    """Ctrl-C before any action, or in a command that changes nothing."""
    # Actions that had started were reported as a separate error (`CommandContext.run`).
    hint = UNBEGUN if {*argv[:1]} & {"up", "down", "wait", "rollback", "scale"} else ""
    return _report_error(Interrupted("interrupted", hint=hint), argv)


def _full(reason: OSError, argv: Sequence[str]) -> int:
    """A full disk is never a bug of lmi."""
    try:
        sys.stdout.flush()
    except OSError:
        _discard(sys.stdout)
    place = reason.filename or "a disk of this machine, or the target of stdout"
    hint = "free some space (`df -h` shows the disks), then run the command again"
    return _report_error(DiskRefused(f"{place}: {reason.strerror}", hint=hint), argv)


def _bug(bug: Exception, argv: Sequence[str]) -> int:
    try:
        report = f"{EXIT_CODES[3]}: {write_report(bug, argv)}; it contains no secrets, please send it to us"
    except OSError as reason:
        report = f"a bug of lmi, please report it; the report file could not be written: {reason.strerror}"
    error = Bug(f"{type(bug).__name__}: {bug}", hint=report)
    error.__cause__ = bug
    return _report_error(error, argv)


def write_report(bug: BaseException, argv: Sequence[str]) -> Path:
    """A file with the place of the bug and all versions, but no user data: arguments are cut to their names, as values
    may be prompts or worse.
    """
    import platform
    import tempfile
    import traceback
    from importlib.metadata import distributions
    from pathlib import Path

    from lmi_deploy import __version__

    names = [part.split("=", 1)[0] if part.startswith("-") else "..." for part in argv[1:]]
    lines = [
        f"lmi {__version__}, Python {sys.version.split()[0]}, {platform.platform()}",
        f"command: lmi {' '.join([*argv[:1], *names])}",
        "",
        *(
            f"{frame.filename}:{frame.lineno} in {frame.name}"
            for frame in traceback.extract_tb(bug.__traceback__)
        ),
        f"{type(bug).__name__}",
        "",
        *sorted(f"{d.name} {d.version}" for d in distributions()),
    ]
    with tempfile.NamedTemporaryFile("w", prefix="lmi-report-", suffix=".txt", delete=False) as file:
        file.write("\n".join(lines) + "\n")
    return Path(file.name)
