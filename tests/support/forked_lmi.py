"""The program `lmi` of `program_forks.forked_lmi`, which writes the line with SOCKET before it: one that is forked has
its streams, its folder, its variables, gets its signals, and ends with its exit code.
"""

import json
import os
import signal
import socket
import struct
import sys


def main(address: str) -> None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(address)
    request = {"argv": sys.argv[1:], "environ": dict(os.environ), "cwd": os.getcwd()}  # noqa: PTH109
    socket.send_fds(connection, [json.dumps(request).encode()], [0, 1, 2])
    status = struct.Struct("i")
    (pid,) = status.unpack(connection.recv(status.size))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(pid, number))
    (code,) = status.unpack(connection.recv(status.size))
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if "SOCKET" in globals():
    main(globals()["SOCKET"])
