"""An external program that uploads files: gets its input, is read line by line, and is killed with lmi."""

from __future__ import annotations

import ctypes
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any, Final, NamedTuple

from lmi_deploy.aws.credentials import LOG_IN_AGAIN, refused_credentials
from lmi_deploy.aws.session import SessionFactory, credentials_explained
from lmi_deploy.errors import AccessError, LmiError, NotFound, TransferFailed

OUT: Final = "stdout"
_TICK: Final = 0.2
_SHUTDOWN_TIMEOUT: Final = 5.0
"""Seconds for the last lines of a program that has exited; another process may hold its streams open."""
_FROM_OUTSIDE: Final = (
    "HOME",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "PATH",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TMPDIR",
)
_DENIED: Final = ("AccessDenied", "Forbidden", "AllAccessDisabled")
_PR_SET_PDEATHSIG: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadTarget:
    """The destination. `endpoint` is empty for AWS; `kms_key` empty for the bucket's own default."""

    region: str
    endpoint: str = ""
    kms_key: str = ""
    owner: str = ""
    """Stated on every request by an engine that can."""
    files_at_once: int = 16
    parts_at_once: int = 8
    retries: int = 5


class OutputLine(NamedTuple):
    """A line, with the stream that it came from."""

    stream: str
    line: str


@dataclass(slots=True)
class ExternalProgram:
    """`words` is its standard input; `code` its exit code."""

    argv: Sequence[str]
    env: Mapping[str, str]
    words: str
    remedy: str
    """What to do if it cannot be started."""
    code: int = -1

    def output(self) -> Generator[OutputLine | None, None, None]:
        """Its lines, None while it prints nothing. Stops when both its streams are closed; closing the generator
        kills it.
        """
        child = self._start()
        lines: queue.SimpleQueue[OutputLine | None] = queue.SimpleQueue()
        threads = [
            threading.Thread(target=_pump, args=(child.stdout, OUT, lines), daemon=True),
            threading.Thread(target=_pump, args=(child.stderr, "stderr", lines), daemon=True),
            threading.Thread(target=_feed, args=(child.stdin, self.words), daemon=True),
        ]
        for thread in threads:
            thread.start()
        try:
            yield from _parse_lines(lines)
            self.code = child.wait()
        finally:
            child.kill()
            child.wait()
            for thread in threads:
                thread.join(_SHUTDOWN_TIMEOUT)
            for stream in (child.stdin, child.stdout, child.stderr):
                with suppress(OSError):
                    if stream is not None:
                        stream.close()

    def _start(self) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        try:
            return subprocess.Popen(
                list(self.argv),
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                text=True,
                encoding="utf-8",
                errors="replace",
                env=dict(self.env),
                preexec_fn=_exit_with_parent,
            )
        except OSError as exc:
            raise NotFound(f"{self.argv[0]}: {exc.strerror}", hint=self.remedy) from exc


def kept_certificates(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment variables that such a program needs, without credentials."""
    names = {*_FROM_OUTSIDE, *(name.lower() for name in _FROM_OUTSIDE if name.endswith("PROXY"))}
    return {name: environ[name] for name in names if name in environ}


def credentials(session: SessionFactory) -> tuple[Any, Any]:
    """The session, and its credentials as they are now. Raises AccessError."""
    with credentials_explained():
        created = session()
        found = created.get_credentials()
    if found is None:
        raise AccessError(
            "AWS credentials: none found", hint="set AWS_PROFILE, or log in with `aws sso login`"
        )
    return created, found.get_frozen_credentials()


def ca_bundle(environ: Mapping[str, str], session: Any) -> str:
    """The certificate file that AWS's configuration names; empty if it names none."""
    return environ.get("AWS_CA_BUNDLE") or str(session._session.get_config_variable("ca_bundle") or "")


def explain_denied(name: str, line: str, codes: Sequence[str]) -> LmiError | None:
    """A refusal as an error of lmi; None if `codes` are about something else. `name`: the program's."""
    for code in codes:
        if (refused := refused_credentials(code)) is not None:
            return refused
        if code in _DENIED:
            return AccessError(
                f"{name}: {line[:300]}",
                hint="allow s3:PutObject and s3:AbortMultipartUpload on the bucket, and its KMS key",
            )
    return None


def failure(name: str, error: Sequence[str], *, code: int, count: int) -> LmiError:
    """All its output."""
    how = f"was ended by signal {-code}" if code < 0 else f"ended with {code}"
    why = f": {error[0][:300]}" if error else ""
    return TransferFailed(
        f"{name} {how}, {len(error)} of {count} files failed{why}",
        hint=LOG_IN_AGAIN,
        details=[line[:300] for line in error[1:]],
    )


def _parse_lines(lines: queue.SimpleQueue[OutputLine | None]) -> Generator[OutputLine | None, None, None]:
    streams = 2
    while streams:
        try:
            line = lines.get(timeout=_TICK)
        except queue.Empty:
            yield None
            continue
        if line is None:
            streams -= 1
        else:
            yield line


def _exit_with_parent() -> None:
    # After kill -9 of lmi there is no time to stop it; Linux then does it. Elsewhere it finishes its current work.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _feed(stream: IO[str] | None, words: str) -> None:
    if stream is not None:
        with suppress(OSError):
            stream.write(words)
            stream.close()


def _pump(stream: IO[str] | None, name: str, lines: queue.SimpleQueue[OutputLine | None]) -> None:
    for line in stream or ():
        lines.put(OutputLine(name, line))
    lines.put(None)
