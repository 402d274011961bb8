"""The control socket of the embedded server: one JSON line in, one out."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any


def send_request(path: Path, request: dict[str, Any], *, timeout: float) -> dict[str, Any] | None:
    """The server's response; None if no server responds in time."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
            link.settimeout(timeout)
            link.connect(str(path))
            link.sendall(json.dumps(request).encode() + b"\n")
            return _object(_line(link))
    except OSError:
        return None


def _line(link: socket.socket) -> bytes:
    parts: list[bytes] = []
    while not parts or not parts[-1].endswith(b"\n"):
        chunk = link.recv(65536)
        if not chunk:
            break
        parts.append(chunk)
    return b"".join(parts)


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        response = json.loads(line)
    except ValueError:
        return None
    return response if isinstance(response, dict) else None
