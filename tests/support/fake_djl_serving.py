"""A stand-in for DJLServing: its command line, files, variables, phases and exit codes, without Java.

It checks its input as strictly as it can, and ends with the error; what it accepts, it obeys as DJLServing
does. One file with only the standard library, because it is also the program of the container image.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import sys
import traceback
import types
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

KEYS = {"inference_address", "management_address", "model_store", "load_models", "job_queue_size"}
MODEL = re.compile(r"(\[?([^?]+?)]?=)?(.+)")
IMAGE_SETTINGS = {
    "inference_address": "http://0.0.0.0:8080",
    "management_address": "http://0.0.0.0:8080",
    "model_store": "/opt/ml/model",
    "load_models": "ALL",
}


class Wrong(Exception):
    """The input differs from what DJLServing would accept."""


def settings(argv: list[str], environ: dict[str, str]) -> dict[str, str]:
    """config.properties, overridden by SERVING_*. In the image the file is the image's own."""
    if argv == ["serve"]:
        found = dict(IMAGE_SETTINGS)
        if "MODEL_SERVER_HOME" in environ or not Path("/opt/ml/model").is_dir():
            raise Wrong("the image is not laid out as SageMaker does it")
        with suppress(OSError):
            Path("/opt/ml/model/.written").touch()
            raise Wrong("/opt/ml/model can be written to")
    elif len(argv) == 2 and argv[0] == "-f":
        lines = Path(argv[1]).read_text("latin-1").splitlines()
        found = {
            key: re.sub(r"\\(.)", r"\1", value) for key, _, value in (line.partition("=") for line in lines)
        }
        own_folder(environ)
    else:
        raise Wrong(f"Unrecognized option: {argv}")
    # SERVING_FAIL_FAST is a variable of its own, which the server reads where it is needed.
    variables = {key: value for key, value in environ.items() if key != "SERVING_FAIL_FAST"}
    found |= {key[8:].lower(): value for key, value in variables.items() if key.startswith("SERVING_")}
    if unknown := set(found) - KEYS:
        raise Wrong(f"no keys of config.properties: {sorted(unknown)}")
    return found


def own_folder(environ: dict[str, str]) -> None:
    """As the server treats its temporary folder: workers whose files are there are leftovers, and are
    killed."""
    prefix = "-Djava.io.tmpdir="
    words = shlex.split(environ.get("JAVA_OPTS", ""))
    given = [word.removeprefix(prefix) for word in words if word.startswith(prefix)]
    if len(given) != 1 or not Path(given[0]).is_dir():
        raise Wrong(f"-Djava.io.tmpdir must be given once and name a folder: {given}")
    if len(f"{given[0]}/djl_sock.19000") > 103:
        raise Wrong(f"{given[0]}: too long for a unix socket's path")
    for name in ("PYTHON_EXECUTABLE", "DJL_CACHE_DIR", "MODEL_SERVER_HOME"):
        if not environ.get(name):
            raise Wrong(f"{name} is not set")
    if not os.access(environ["PYTHON_EXECUTABLE"], os.X_OK):
        raise Wrong(f"{environ['PYTHON_EXECUTABLE']} is no interpreter")
    note = Path(given[0], "djl_sock.19000.pid")
    if note.exists():
        with suppress(ProcessLookupError):
            os.kill(int(note.read_text()), signal.SIGKILL)
    note.write_text(str(os.getpid()))


def model(found: dict[str, str]) -> tuple[str, Path]:
    """Name and folder of the one model."""
    if found["load_models"] == "ALL":
        folder = Path(found["model_store"])
        return folder.name, folder
    urls = re.split("[, ]+", found["load_models"])
    match = MODEL.fullmatch(urls[0])
    if len(urls) != 1 or match is None or not match[2]:
        raise Wrong(f"load_models names {len(urls)} models: {urls}")
    return match[2], Path(unquote(urlsplit(match[3]).path))


class Output:
    """djl_python's, as far as a small handler needs it."""

    def __init__(self) -> None:
        self.text = ""

    def add(self, text: str) -> Output:
        self.text += text
        return self


class Input:
    def __init__(self, body: bytes | None) -> None:
        self.body = body

    def is_empty(self) -> bool:
        return self.body is None

    def get_as_string(self) -> str:
        return (self.body or b"").decode()


def loaded(name: str, folder: Path) -> Any:
    """The handler after its warm-up call; ends the program with the traceback where it does not load."""
    engine = types.ModuleType("djl_python")
    engine.Output, engine.Input = Output, Input  # type: ignore[attr-defined]
    sys.modules["djl_python"] = engine
    module: dict[str, Any] = {"__name__": "model"}
    sys.excepthook = lambda kind, value, trace: _not_loaded(
        name, traceback.format_exception(kind, value, trace)
    )
    exec(compile((folder / "model.py").read_text(), "model.py", "exec"), module)
    module["handle"](Input(None))
    sys.excepthook = sys.__excepthook__
    return module["handle"]


def _not_loaded(name: str, messages: list[str]) -> None:
    for line in "".join(messages).splitlines():
        say("WARN ", f"PyProcess - W-4052-{name}-stderr: {line}")
    say("ERROR", "ModelServer - Failed to initialize startup models and workflows")


def serve(found: dict[str, str], name: str, folder: Path, handle: Any) -> None:
    address = urlsplit(found["inference_address"])
    response = {"modelName": name, "modelUrl": f"file:{folder}/", "status": "Healthy", "requestInQueue": 0}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/ping":
                self.answer(200, {name: {"status": "Healthy"}})
            elif self.path == f"/models/{name}":
                self.answer(200, [response])
            else:
                self.answer(404, {"code": 404, "type": "ResourceNotFoundException"})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.answer(200, handle(Input(body)).text)

        def answer(self, status: int, result: Any) -> None:
            body = (result if isinstance(result, str) else json.dumps(result)).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            say("INFO ", f"ACCESS_LOG - {self.client_address[0]} {format % args}")

        def address_string(self) -> str:
            return str(self.client_address[0])

    class Server(ThreadingHTTPServer):
        def server_bind(self) -> None:
            # As Java binds, without a look-up of our own host name.
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind(self.server_address)
            self.server_name, self.server_port = self.socket.getsockname()[:2]

    try:
        server = Server((str(address.hostname), int(address.port or 0)), Handler)
    except OSError as reason:
        say("ERROR", f"ModelServer - Failed to bind to address: {found['inference_address']}: {reason}")
        sys.exit(1)
    say("INFO ", f"ModelServer - BOTH API bind to: {found['inference_address']}")
    server.serve_forever()


def say(level: str, text: str) -> None:
    sys.stdout.write(f"{level} {text}\n")
    sys.stdout.flush()


def main() -> None:
    # As a JVM ends on a signal.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: os._exit(128 + number))
    say("INFO ", f"ModelServer - Starting model server ... {sys.argv[1:]}")
    try:
        found = settings(sys.argv[1:], dict(os.environ))
        name, folder = model(found)
    except Wrong as wrong:
        say("ERROR", f"ModelServer - Invalid configuration: {wrong}")
        sys.exit(1)
    # The handler's own variables, for tests that check what reached the server.
    say("INFO ", f"variables: {' '.join(sorted(key for key in os.environ))}")
    serve(found, name, folder, loaded(name, folder))


if __name__ == "__main__":
    main()
