"""`lmi proxy` where it cannot start, and what it says when it does."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

from tests.support.proxy_process import write_record


def run(home: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "LMI_PROXY"))}
    return subprocess.run(
        [sys.executable, "-m", "lmi_deploy", "proxy", *argv],
        env={**kept, "LMI_STATE_HOME": str(home / "state"), "AWS_CONFIG_FILE": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_port_in_use_is_a_clear_error(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = run(tmp_path, "--port", str(taken.getsockname()[1]))
    assert done.returncode == 2
    assert "Address already in use" in done.stderr
    assert "--port" in done.stderr


def test_proxy_prints_an_example_for_the_openai_client(tmp_path: Path) -> None:
    write_record(tmp_path, "vectors", 1, template="text-embedding", task="text-embedding")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "LMI_PROXY"))}
    process = subprocess.Popen(
        [sys.executable, "-m", "lmi_deploy", "proxy", "--port", "0"],
        env={**kept, "LMI_STATE_HOME": str(tmp_path / "state")},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(8)]
    process.terminate()
    assert process.wait(30) == 0
    process.stdout.close()
    assert "serves vectors; Ctrl-C stops it" in lines[0]
    assert re.fullmatch(r"export LMI_PROXY_API_KEY=[\w-]{32}\n", lines[2])
    assert lines[4:6] == ["  import os\n", "  from openai import OpenAI\n"]
    assert lines[7] == '  print(client.embeddings.create(model="vectors", input="Hello").data[0].embedding)\n'


def test_named_deployment_that_does_not_exist_is_not_found(tmp_path: Path) -> None:
    done = run(tmp_path, "nothing", "--target", "local", "--port", "0")
    assert done.returncode == 1
    assert "nothing: no such deployment is running" in done.stderr
    assert "lmi ls" in done.stderr
