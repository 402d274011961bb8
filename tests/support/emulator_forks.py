"""Emulators that are forked from one process which has imported them: each is a process with a state of its own, but
starts in a tenth of the time.

`python -m tests.support.emulator_forks FD` is that process; it serves one socket, and ends when it is closed.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Final, NoReturn

ROOT: Final = Path(__file__).resolve().parents[2]
_LARGEST: Final = 1 << 20
"""Bytes of a request: arguments and environment."""
_STATUS: Final = struct.Struct("i")


@dataclass(slots=True)
class ForkedProcess:
    """What these tests need of a subprocess.Popen."""

    pid: int
    stdout: IO[bytes]
    _status: int = field(repr=False)
    returncode: int | None = None

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("emulator", timeout or 0.0)
            told = os.read(self._status, _STATUS.size)
            os.close(self._status)
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
    server = _server()
    output, output_end = os.pipe()
    status, status_end = os.pipe()
    request = {"argv": [*arguments], "environ": dict(environ), "cwd": str(Path.cwd())}
    try:
        socket.send_fds(server, [json.dumps(request).encode()], [output_end, log.fileno(), status_end])
    finally:
        os.close(output_end)
        os.close(status_end)
    pid = int(server.recv(64))
    return ForkedProcess(pid, open(output, "rb"), status)


def run_emulator(folder: Path, *arguments: str, timeout: float = 60.0) -> tuple[int, str, str]:
    """The exit code of one that ends by itself, its stdout and its stderr, which `folder` takes."""
    log = folder / "stderr"
    with log.open("wb") as err:
        process = fork_emulator(("--port", "0", "--no-containers", *arguments), os.environ, err)
    with process.stdout as out:
        printed = out.read().decode()
    return process.wait(timeout), printed, log.read_text()


@cache
def _server() -> socket.socket:
    """Of this process, as long as it runs."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LARGEST)
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, str(its.fileno())],
        cwd=ROOT,
        pass_fds=[its.fileno()],
        stdin=subprocess.DEVNULL,
    )
    its.close()

    def end() -> None:
        ours.close()
        process.wait(10)

    atexit.register(end)
    return ours


def main(descriptor: int) -> None:
    from lmi_deploy.emulator.__main__ import main as emulator

    requests = socket.socket(fileno=descriptor)
    _prepare()
    gc.collect()
    gc.freeze()
    running: dict[int, int] = {}
    woken, waker = os.pipe()
    for end in (woken, waker):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker)
    while True:
        ready = select.select([descriptor, woken], [], [])[0]
        if woken in ready:
            os.read(woken, 4096)
            _report_ended(running)
        if descriptor in ready:
            content, descriptors, _, _ = socket.recv_fds(requests, _LARGEST, 3)
            if not content:
                return
            output, log, status = descriptors
            pid = os.fork()
            if pid == 0:
                for other in (requests.detach(), woken, waker, status, *running.values()):
                    os.close(other)
                request = json.loads(content)
                _become(request, output, log)
                _end(emulator(request["argv"]))
            running[pid] = status
            for given in (output, log):
                os.close(given)
            requests.send(str(pid).encode())


def _prepare() -> None:
    """What an emulator imports, reads and derives at its first requests: none of it is state that a request changes."""
    from moto.core.utils import get_service_model
    from moto.moto_server import werkzeug_app

    from lmi_deploy.emulator.context import ACCOUNT
    from lmi_deploy.emulator.iam.roles import iam_backend, sts_backend
    from lmi_deploy.emulator.services.moto import SERVICES, Moto
    from lmi_deploy.emulator.services.s3_objects import s3_backend
    from lmi_deploy.emulator.wire import operation_dispatch, rest_protocol
    from lmi_deploy.emulator.wire.service_models import service_model

    importlib.import_module("lmi_deploy.runtimes.embedded")
    for name in {*operation_dispatch.TARGETS.values(), *rest_protocol.SERVICES}:
        service_model(name)
    werkzeug_app.create_backend_app = cache(werkzeug_app.create_backend_app)
    Moto(ACCOUNT, None)
    # The others are large, and few tests need them.
    for service in SERVICES - {"s3express", "ec2", "sqs", "kms", "ssm"}:
        werkzeug_app.create_backend_app(service)
        get_service_model(service)
    # IAM's contains the policies that AWS publishes: a second.
    for backend in (iam_backend, sts_backend, s3_backend):
        backend(ACCOUNT)


def _report_ended(running: dict[int, int]) -> None:
    """To whoever waits for it."""
    for pid in list(running):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            descriptor = running.pop(pid)
            with suppress(BrokenPipeError):
                os.write(descriptor, _STATUS.pack(os.waitstatus_to_exitcode(status)))
            os.close(descriptor)


def _become(request: Mapping[str, object], output: int, log: int) -> None:
    """The process that its caller describes."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for source, target in ((output, 1), (log, 2)):
        os.dup2(source, target)
        os.close(source)
    environ = request["environ"]
    assert isinstance(environ, dict)
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(str(request["cwd"]))
    tempfile.tempdir = None
    # Python's own generator of random numbers seeds itself again.
    from moto.moto_api._internal import mock_random

    mock_random.seed()


def _end(code: int) -> NoReturn:
    """As Python ends, but without freeing each of its objects, which takes longer than an emulator's start."""
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            thread.join()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main(int(sys.argv[1]))
