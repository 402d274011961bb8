"""The quickstart as a user runs it: the wheel's `lmi`, a Hub, DJL's real engine, a real model."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
import time
import urllib.request
from pathlib import Path

import psutil
import pytest

from tests.e2e.conftest import ROOT, Installed
from tools.picture import PICTURE, TEXT, draw, masked, transcript

RECIPE = str(ROOT / "recipes" / "quickstart.yaml")
CANARY = "hf_canary_that_must_not_be_seen"
pytestmark = pytest.mark.model


def events(done: subprocess.CompletedProcess[str]) -> list[dict[str, object]]:
    assert done.stderr == "", done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def chat(address: str, text: str) -> str:
    body = json.dumps({"messages": [{"role": "user", "content": text}], "max_tokens": 4}).encode()
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return str(json.load(response)["choices"][0]["message"]["content"])


@pytest.fixture(scope="module")
def up(installed: Installed) -> dict[str, object]:
    done = installed.run("up", "--yes", "--json", RECIPE)
    assert done.returncode == 0, done.stdout
    return events(done)[-1]


@pytest.fixture
def nothing_up(installed: Installed) -> None:
    """No deployment: the test before may have left its own, or not have been among those that were chosen."""
    assert installed.run("down", "--yes", "quickstart").returncode == 0


def test_up_serves_an_endpoint_that_answers(installed: Installed, up: dict[str, object]) -> None:
    assert up["ok"] is True
    assert up["changed"] is True
    assert chat(str(up["address"]), "Hello")


def test_second_up_plans_nothing_and_still_probes(installed: Installed, up: dict[str, object]) -> None:
    messages = events(installed.run("up", "--yes", "--json", RECIPE))
    assert messages[0]["actions"] == []
    assert [event["event"] for event in messages].count("answered") == 1
    assert messages[-1]["changed"] is False
    assert installed.run("plan", "--exit-code", RECIPE).returncode == 0


def test_invoke_streams_tokens_and_prints_only_them_to_stdout(
    installed: Installed, up: dict[str, object]
) -> None:
    done = installed.run("invoke", "--stream", "quickstart", "What is the capital of France?")
    assert "Paris" in done.stdout
    assert "tokens/s" in done.stderr
    messages = events(installed.run("invoke", "--json", "quickstart", "What is the capital of France?"))
    chunks = "".join(str(event["text"]) for event in messages if event["event"] == "piece")
    assert messages[-1]["answer"] == chunks
    assert len(messages) > 4, "it came in pieces"
    assert "Paris" in chunks


def test_invoke_takes_stdin_a_file_or_a_body_and_prints_raw(
    installed: Installed, up: dict[str, object], tmp_path: Path
) -> None:
    requests = "What is the capital of France?"
    (tmp_path / "prompt.txt").write_text(requests)
    body = json.dumps({"inputs": "Paris is", "parameters": {"max_new_tokens": 2}})
    assert "Paris" in installed.run("invoke", "quickstart", input=requests).stdout
    assert "Paris" in installed.run("invoke", "quickstart", "--file", str(tmp_path / "prompt.txt")).stdout
    raw = installed.run("invoke", "--raw", "quickstart", "--body", body)
    assert "generated_text" in json.loads(raw.stdout)
    wrong = installed.run("invoke", "quickstart", requests, "-p", "temperatur=0")
    assert wrong.returncode == 1
    assert "did you mean temperature" in wrong.stderr
    assert wrong.stdout.strip() == ""


def test_status_ls_and_logs_show_the_deployment(installed: Installed, up: dict[str, object]) -> None:
    status = installed.run("status", "quickstart")
    assert status.returncode == 0
    assert "in-step" in status.stdout
    listed = events(installed.run("ls", "--json"))
    assert listed[0]["name"] == "quickstart"
    assert "Python engine started." in installed.run("logs", "quickstart").stdout


@pytest.mark.landing
def test_changed_recipe_takes_over_the_address_without_losing_a_request(
    installed: Installed, up: dict[str, object]
) -> None:
    address, ended, answered, lost = str(up["address"]), threading.Event(), [], []

    def load() -> None:
        while not ended.is_set():
            try:
                answered.append(chat(address, "Hi"))
            except OSError as error:
                lost.append(error)

    clients = [threading.Thread(target=load) for _ in range(2)]
    for client in clients:
        client.start()
    done = installed.run("up", "--yes", "--json", RECIPE, "--set", "options.max_new_tokens=33")
    ended.set()
    for client in clients:
        client.join()
    messages = events(done)
    assert done.returncode == 0, messages[-1]
    assert messages[-1]["address"] == address
    assert any(
        event["event"] == "finished" and "switch the address" in str(event["title"]) for event in messages
    )
    assert not lost, lost[:3]
    assert len(answered) > 2
    servers = [p for p in psutil.process_iter(["cmdline"]) if _serves(p, installed)]
    assert len(servers) == 1, "the old server has drained and ended"


def test_down_leaves_no_file_process_or_open_port(installed: Installed, up: dict[str, object]) -> None:
    home = Path(installed.environment["LMI_STATE_HOME"])
    port = int(str(up["address"]).rsplit(":", 1)[1].split("/")[0])
    assert installed.run("down", "--yes", "quickstart").returncode == 0
    assert [path for path in home.rglob("*") if path.is_file()] == []
    assert not [p for p in psutil.process_iter(["cmdline"]) if _serves(p, installed)]
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0, "nobody answers at the address"
    again = installed.run("down", "--yes", "quickstart")
    assert again.returncode == 0
    assert installed.run("status", "quickstart").returncode == 4


@pytest.mark.landing
@pytest.mark.usefixtures("nothing_up")
def test_ctrl_c_while_the_model_loads_is_reported_and_up_continues(installed: Installed) -> None:
    import signal

    running = subprocess.Popen(
        [str(installed.lmi), "up", "--yes", RECIPE],
        env=installed.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stderr is not None
    for line in running.stderr:
        if line.startswith("... wait until"):
            break
    time.sleep(0.3)
    running.send_signal(signal.SIGINT)
    output = running.stderr.read()
    running.stderr.close()
    assert running.stdout is not None
    running.stdout.close()
    assert running.wait(20) == 130, output
    assert "interrupted" in output
    assert installed.run("status", "quickstart").returncode in (1, 4)
    assert installed.run("up", "--yes", RECIPE).returncode == 0
    assert installed.run("down", "--yes", "quickstart").returncode == 0


@pytest.mark.landing
@pytest.mark.usefixtures("up", "nothing_up")  # `up` has left the weights in the cache
def test_picture_shows_a_run_of_this_version(installed: Installed) -> None:
    text = transcript([str(installed.lmi)], installed.environment)
    assert CANARY not in text
    assert masked(text) == masked(TEXT.read_text()), "`make picture` draws it again"
    assert PICTURE.read_text() == draw(TEXT.read_text())


def _serves(process: psutil.Process, installed: Installed) -> bool:
    """One of our servers; its worker is a child with another command line."""
    line = " ".join(process.info["cmdline"] or [])
    return "lmi_deploy.server" in line and installed.environment["LMI_STATE_HOME"] in line
