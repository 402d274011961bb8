"""The local Hub as a program: prints its URL, accepts faults, and ends with its parent."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from huggingface_hub import get_session


def start_hub(tmp_path: Path, *args: str) -> subprocess.Popen[str]:
    (tmp_path / "root" / "org" / "m").mkdir(parents=True, exist_ok=True)
    (tmp_path / "root" / "org" / "m" / "config.json").write_text("{}")
    command = [sys.executable, "-m", "tests.support.hub", "--root", str(tmp_path / "root"), *args]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_program_reports_its_url_accepts_faults_and_ends_with_its_parent(tmp_path: Path) -> None:
    (tmp_path / "faults.json").write_text('{"path": "config.json", "do": {"answer": {"status": 503}}}')
    parent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    watched = [
        "--faults",
        str(tmp_path / "faults.json"),
        "--parent-pid",
        str(parent.pid),
        "--stop-after",
        "60",
    ]
    hub = start_hub(tmp_path, "--ready-file", str(tmp_path / "ready"), *watched)
    try:
        assert hub.stdout is not None
        url = hub.stdout.readline().removeprefix("Hub at ").strip()
        assert (tmp_path / "ready").read_text() == url
        assert statuses(url, 2) == [503, 200]
        add_faults(url, b'{"path": "config.json", "do": {"answer": {"status": 500}}}')
        assert statuses(url, 2) == [500, 200]
        with pytest.raises(urllib.error.HTTPError) as refused:
            add_faults(url, b'{"do": "nothing"}')
        assert "rule 1: do: nothing: unknown" in refused.value.read().decode()
        refused.value.close()
        urllib.request.urlopen(urllib.request.Request(f"{url}/_faults", method="DELETE")).close()
        with urllib.request.urlopen(f"{url}/_faults") as shown:
            assert json.load(shown) == {"rules": []}
    finally:
        parent.communicate(b"\n")
        assert hub.wait(10) == 0
        hub.communicate()


def statuses(url: str, count: int) -> list[int]:
    return [get_session().get(f"{url}/org/m/resolve/main/config.json").status_code for _ in range(count)]


def add_faults(url: str, body: bytes) -> None:
    urllib.request.urlopen(urllib.request.Request(f"{url}/_faults", data=body, method="POST")).close()


def test_program_ends_after_its_time_and_refuses_invalid_faults(tmp_path: Path) -> None:
    (tmp_path / "faults.json").write_text('{"do": "nothing"}')
    timed, bad = (
        start_hub(tmp_path, "--stop-after", "0.1"),
        start_hub(tmp_path, "--faults", str(tmp_path / "faults.json")),
    )
    assert timed.wait(20) == 0
    assert bad.wait(20) == 1
    _, output = bad.communicate()
    timed.communicate()
    assert "rule 1: do: nothing: unknown" in output
    assert "Traceback" not in output
