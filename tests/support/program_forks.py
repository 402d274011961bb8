"""Programs that are forked from a process which has imported them: each is a process with a state of its own,
but starts in a tenth of the time.

`python -m tests.support.program_forks PROGRAM SOCKET` is that process; it ends when its standard input is closed.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Final, Literal, NoReturn

ROOT: Final = Path(__file__).resolve().parents[2]
LMI: Final = Path(sys.executable).with_name("lmi")
CLIENT: Final = Path(__file__).with_name("forked_lmi.py")
Program = Literal["emulator", "lmi"]
_LARGEST: Final = 1 << 20
"""Bytes of a request: arguments and environment."""
_STATUS: Final = struct.Struct("i")
_SETTINGS: Final = ("AWS_", "HF_", "LMI_")
"""Variables that a module might read when it is imported."""


@dataclass(slots=True)
class ForkedProcess:
    """What these tests need of a subprocess.Popen."""

    pid: int
    stdout: IO[bytes]
    _connection: socket.socket = field(repr=False)
    returncode: int | None = None

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("emulator", timeout or 0.0)
            told = self._connection.recv(_STATUS.size)
            self._connection.close()
            self.returncode = _STATUS.unpack(told)[0] if told else -signal.SIGKILL
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def fork_emulator(arguments: Sequence[str], environ: Mapping[str, str], log: IO[bytes]) -> ForkedProcess:
    """As if it were started with `python -m lmi_deploy.emulator`: its stdout is a pipe, its stderr goes to `log`."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LARGEST)
    connection.connect(str(_server("emulator")))
    output, output_end = os.pipe()
    request = {"argv": [*arguments], "environ": dict(environ), "cwd": str(Path.cwd())}
    with open(os.devnull, "rb") as nothing:
        try:
            given = [nothing.fileno(), output_end, log.fileno()]
            socket.send_fds(connection, [json.dumps(request).encode()], given)
        finally:
            os.close(output_end)
    return ForkedProcess(_STATUS.unpack(connection.recv(_STATUS.size))[0], open(output, "rb"), connection)


def run_emulator(folder: Path, *arguments: str, timeout: float = 60.0) -> tuple[int, str, str]:
    """The exit code of one that ends by itself, its stdout and its stderr, which `folder` takes."""
    log = folder / "stderr"
    with log.open("wb") as err:
        process = fork_emulator(("--port", "0", "--no-containers", *arguments), os.environ, err)
    with process.stdout as out:
        printed = out.read().decode()
    return process.wait(timeout), printed, log.read_text()


@cache
def forked_lmi() -> Path:
    """A folder for the PATH: its `lmi` has the streams, the folder, the variables and the exit code of a program."""
    place = _server("lmi")
    program = place.parent / "lmi"
    program.write_text(f"#!{sys.executable} -IS\nSOCKET = {str(place)!r}\n{CLIENT.read_text()}")
    program.chmod(0o755)
    return program.parent


@cache
def _server(program: Program) -> Path:
    """Its socket; it runs as long as this process."""
    folder = Path(tempfile.mkdtemp(prefix="lmi-forks-"))
    address = folder / "socket"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.program_forks", program, str(address)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={key: value for key, value in os.environ.items() if not key.startswith(_SETTINGS)},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.read() == b"", "it is ready when it closes its output"
    process.stdout.close()

    def end() -> None:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(10)
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return address


def main(program: str, address: str) -> None:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(address)
    listening.listen(64)
    run = PROGRAMS[program]()
    gc.collect()
    gc.freeze()
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)
    running: dict[int, socket.socket] = {}
    woken, waker = os.pipe()
    for end in (woken, waker):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker)
    while True:
        ready = select.select([0, listening.fileno(), woken], [], [])[0]
        if 0 in ready:
            return
        if woken in ready:
            os.read(woken, 4096)
            _report_ended(running)
        if listening.fileno() in ready:
            connection = listening.accept()[0]
            content, streams, _, _ = socket.recv_fds(connection, _LARGEST, 3)
            pid = os.fork()
            if pid == 0:
                for other in (listening, connection, *running.values()):
                    other.close()
                for descriptor in (woken, waker, nothing):
                    os.close(descriptor)
                request = json.loads(content)
                _become(request, streams)
                _end(run(request["argv"]))
            running[pid] = connection
            for stream in streams:
                os.close(stream)
            connection.send(_STATUS.pack(pid))


def _emulator() -> Callable[[list[str]], int]:
    """With what it imports, reads and derives at its first requests: none of it is state that a request changes."""
    from moto.core.utils import get_service_model
    from moto.moto_server import werkzeug_app

    from lmi_deploy.emulator.__main__ import main as emulator
    from lmi_deploy.emulator.context import ACCOUNT
    from lmi_deploy.emulator.iam.roles import iam_backend, sts_backend
    from lmi_deploy.emulator.services.moto import SERVICES, Moto
    from lmi_deploy.emulator.services.s3_objects import s3_backend
    from lmi_deploy.emulator.wire import operation_dispatch, rest_protocol
    from lmi_deploy.emulator.wire.parameter_validation import matches
    from lmi_deploy.emulator.wire.service_models import service_model

    importlib.import_module("lmi_deploy.runtimes.embedded")
    for name in {*operation_dispatch.TARGETS.values(), *rest_protocol.SERVICES}:
        service_model(name)
    # The letters, spaces and numbers that tags may consist of.
    matches(r"[\p{L}\p{Z}\p{N}_.:/=+\-@]*", "")
    werkzeug_app.create_backend_app = cache(werkzeug_app.create_backend_app)
    Moto(ACCOUNT, None)
    # The others are large, and few tests need them.
    for service in SERVICES - {"s3express", "ec2", "sqs", "kms", "ssm"}:
        werkzeug_app.create_backend_app(service)
        get_service_model(service)
    # IAM's contains the policies that AWS publishes: a quarter of a second.
    for backend in (iam_backend, sts_backend, s3_backend):
        backend(ACCOUNT)
    return emulator


def _lmi() -> Callable[[list[str]], int]:
    """With its commands, and what botocore derives of AWS's models."""
    import boto3

    from lmi_deploy.aws.client import NAMES
    from lmi_deploy.cli import commands, main
    from tests.support import botocore_caches

    botocore_caches.install()
    for module in pkgutil.iter_modules(commands.__path__, f"{commands.__name__}."):
        importlib.import_module(module.name)
    for name in (
        "composition.aws",
        "composition.weights",
        "targets.sagemaker.target",
        "weights.bucket_weights",
    ):
        importlib.import_module(f"lmi_deploy.{name}")
    session = boto3.Session("none", "none", region_name="us-east-1")
    for service in ("s3", *NAMES):
        session.client(service)
    # It reads its variables when it is imported.
    assert "huggingface_hub" not in sys.modules

    def run(arguments: list[str]) -> int:
        sys.path[0] = str(LMI.parent)
        sys.argv[:] = [str(LMI), *arguments]
        try:
            main()
        except SystemExit as ended:
            return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        return 0

    return run


PROGRAMS: Final[Mapping[str, Callable[[], Callable[[list[str]], int]]]] = {"emulator": _emulator, "lmi": _lmi}


def _report_ended(running: dict[int, socket.socket]) -> None:
    """Send their exit codes to those who wait for them."""
    for pid in list(running):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            with running.pop(pid) as connection, suppress(OSError):
                connection.send(_STATUS.pack(os.waitstatus_to_exitcode(status)))


def _become(request: Mapping[str, object], streams: Sequence[int]) -> None:
    """The process that its caller describes."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for target, source in enumerate(streams):
        os.dup2(source, target)
        os.close(source)
    environ = request["environ"]
    assert isinstance(environ, dict)
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(str(request["cwd"]))
    tempfile.tempdir = None
    # Python's own generator of random numbers seeds itself again.
    if "moto" in sys.modules:
        from moto.moto_api._internal import mock_random

        mock_random.seed()


def _end(code: int) -> NoReturn:
    """As Python ends, but without freeing each of its objects, which takes longer than the start."""
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
