"""One recorded scenario as stored in its file, and how its requests are sent again."""

from __future__ import annotations

import base64
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.raw_http import RawResponse

LEAVES_AFTER = 0.2

Step = dict[str, Any]


@dataclass(frozen=True, order=True)
class Difference:
    """A difference between our response and the recorded one."""

    scenario: str
    request: str
    field: str
    recorded: str = ""
    actual: str = ""

    def __str__(self) -> str:
        where = f"{self.scenario} | {self.request} | {self.field}"
        return f"{where}\n    recorded {self.recorded}\n    ours     {self.actual}"


def differing(name: str, recorded: object, own: object) -> Iterator[tuple[str, str, str]]:
    if recorded != own:
        yield name, str(recorded), str(own)


def grouped(steps: list[Step]) -> Iterator[list[Step]]:
    """Requests that ran concurrently, together."""
    group: list[Step] = []
    for step in steps:
        if group and (_together(step) is None or _together(step) != _together(group[0])):
            yield group
            group = []
        group.append(step)
    if group:
        yield group


def pipelined(step: Step) -> bool:
    """Whether it was sent in one write with the others of its label."""
    return str(step["label"]).startswith("pipelined")


def _together(step: Step) -> object:
    return step["label"] if pipelined(step) else step.get("group")


def request_bytes(step: Step, fill: Callable[[str], str]) -> tuple[bytes, bytes]:
    """The request as it is sent, and what follows after an interim response."""
    send = step["send"]
    if "raw64" in send:
        return base64.b64decode(send["raw64"]), b""
    body = base64.b64decode(send["body64"]) if "body64" in send else fill(send.get("body") or "").encode()
    if "size" in send:
        body = bytes(send["size"])
    headers = send.get("headers", [["Host", "127.0.0.1"], ["Content-Length", str(len(body))]])
    if step.get("interim"):
        given = {name.lower() for name, _ in headers}
        own = [["Host", "127.0.0.1"], ["Content-Length", str(len(body))]]
        headers = [*headers, *(pair for pair in own if pair[0].lower() not in given)]
    loose = "${" in send.get("body", "")
    filled = [(n, str(len(body)) if loose and n.lower() == "content-length" else fill(v)) for n, v in headers]
    start = f"{send['method']} {fill(send['path'])} {send.get('version', 'HTTP/1.1')}\r\n"
    head = (start + "".join(f"{n}: {v}\r\n" for n, v in filled) + "\r\n").encode("latin-1")
    return (head, body) if step.get("interim") else (head + body, b"")


def leave(port: int, raw: bytes) -> RawResponse:
    """Send, and disconnect before there is a response. In the background: other requests follow meanwhile."""

    def go() -> None:
        with socket.create_connection(("127.0.0.1", port)) as line:
            line.sendall(raw)
            time.sleep(LEAVES_AFTER)

    threading.Thread(target=go).start()
    time.sleep(LEAVES_AFTER / 2)
    return RawResponse(none="not asked")


def loading(response: RawResponse) -> bool:
    """A response of a server that is still loading: when one is seen is chance."""
    return response.status.startswith("200")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


def slowed(recording: dict[str, Any], factor: int) -> dict[str, Any]:
    """The same for busy machines: the times since the start are multiplied, and in a recording about timing
    every wait is, too."""
    if "stagger" not in recording:
        return recording | {"pace": factor}
    text = json.dumps(recording)
    for written in (r'\\"s\\": ', "slept "):  # in a request, in its response
        text = re.sub(rf"({written})([\d.]+)", lambda found: f"{found[1]}{float(found[2]) * factor:g}", text)
    slow: dict[str, Any] = json.loads(text)
    return slow | {"stagger": recording["stagger"] * factor}


def load(path: Path) -> dict[str, Any]:
    recording: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return recording
