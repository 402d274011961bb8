"""The handler of docs/how-to/write-a-handler.md, served by `lmi serve`, answers the request of that page."""

from __future__ import annotations

import json
import shlex
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.support.listening_program import listening
from tests.support.pages import DOCS, blocks
from tests.support.recording import free_port
from tests.support.running_server import TIMEOUT, worker_python, write_model

pytestmark = pytest.mark.worker

LMI = "import sys; from lmi_deploy.cli import main; sys.exit(main())"


def test_handler_of_the_guide_answers_the_request_of_the_guide(tmp_path: Path) -> None:
    page = list(blocks(DOCS / "how-to" / "write-a-handler.md"))
    (handler,) = [block.text for block in page if block.argument == "model.py"]
    (request,) = [block.text for block in page if block.text.startswith("curl ")]
    folder = write_model(tmp_path / "model", handler)
    port = free_port()
    argv = [sys.executable, "-c", LMI, "serve", str(folder), "--port", str(port), "--python", worker_python()]
    with listening(argv, port=port, run_dir=folder, log=tmp_path / "lmi.log", environ={}) as running:
        running.wait_for("ready")
        assert json.loads(curl(request, port)) == {"echo": {"inputs": "Hello"}}


def curl(line: str, port: int) -> bytes:
    """The body that this command gets, sent to another port."""
    words = shlex.split(line)
    assert words[:2] == ["curl", "-s"]
    given = dict(zip(words[3::2], words[4::2], strict=True))
    name, _, value = given.pop("-H").partition(": ")
    data = given.pop("-d").encode()
    assert not given
    requests = urllib.request.Request(words[2].replace(":8080/", f":{port}/"), data, {name: value})
    with urllib.request.urlopen(requests, timeout=TIMEOUT) as answered:
        body: bytes = answered.read()
    return body
