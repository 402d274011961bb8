"""`lmi diagnose`: of a file, of standard input, of a deployment; and what a failing command says by itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.fake_servers import Behaviour
from tests.support.local_app import LocalApp

LOG = """\
INFO 10-21 11:22:33 [model.py:547] Architecture: LlamaForCausalLM
Traceback (most recent call last):
  File "/usr/lib/python3/dist-packages/vllm/lora/worker.py", line 12, in check
ValueError: LoRA rank 64 is greater than max_lora_rank 16.
RuntimeError: Engine core initialization failed. See root cause above.
"""
UNKNOWN = """\
Traceback (most recent call last):
  File "/usr/lib/python3/dist-packages/frobnicate/core.py", line 33, in spin
frobnicate.SpinError: the flux is at 11 of 10
"""
FIELDS = ["cause", "evidence", "line", "remedy", "settings", "confidence", "source"]


def test_file_is_diagnosed_on_one_page(app: LocalApp) -> None:
    Path("server.log").write_text(LOG)
    result = app.lmi("diagnose", "--log", "server.log")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0].startswith("cause: ")
    assert lines[1] == "  line 4: ValueError: LoRA rank 64 is greater than max_lora_rank 16."
    assert lines[2].startswith("  next: ")
    assert lines[-1] == "the whole log: server.log (5 lines)"


def test_json_lists_the_causes_with_their_fields(app: LocalApp) -> None:
    result = app.lmi("diagnose", "--log", "-", "--json", stdin=LOG.encode())
    assert (result.code, result.err) == (0, "")
    (cause,) = json.loads(result.out)["causes"]
    assert [*cause] == FIELDS
    assert (cause["line"], cause["confidence"]) == (4, "high")
    assert "option.max_lora_rank" in cause["settings"]


def test_unknown_failure_is_the_first_cause_with_its_place(app: LocalApp) -> None:
    result = app.lmi("diagnose", "--log", "-", "--json", stdin=UNKNOWN.encode())
    cause = json.loads(result.out)["causes"][0]
    assert (result.code, cause["line"], cause["confidence"]) == (0, 3, "low")
    assert "not in the catalog" in cause["cause"]
    assert cause["source"] == "frobnicate/core.py:33 in spin"


@pytest.mark.parametrize(
    "log", ["", "\n", "INFO all is well\n", "`torch_dtype` is deprecated! Use `dtype` instead!\n"]
)
def test_log_without_a_failure_has_no_causes(app: LocalApp, log: str) -> None:
    Path("server.log").write_text(log)
    result = app.lmi("diagnose", "--log", "server.log", "--json")
    assert (result.code, json.loads(result.out)["causes"]) == (0, [])
    assert "server.log" in app.lmi("diagnose", "--log", "server.log").out


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--log", "absent.log"), "error: absent.log: no such file or directory"),
        (("--log", "."), "error: .: is a directory"),
        (("--log", "binary"), "error: binary: a binary file, not a log"),
        (("--log", "log.gz"), "zcat log.gz | lmi diagnose --log -"),
        (("tiny", "--log", "absent.log"), "a deployment and --log were given"),
        (("nobody",), "nobody"),
    ],
)
def test_log_that_cannot_be_read_is_an_error(app: LocalApp, argv: tuple[str, ...], words: str) -> None:
    Path("binary").write_bytes(b"\x7fELF\0\1")
    Path("log.gz").write_bytes(b"\x1f\x8b\x08\0")
    result = app.lmi("diagnose", *argv)
    assert result.code in (1, 2)
    assert words in result.err
    assert "next: " in result.err


def test_failed_deployment_is_diagnosed_by_up_status_and_diagnose(app: LocalApp) -> None:
    app.servers.next.append(Behaviour(end="failed", why=LOG))
    result = app.lmi("up", "--yes")
    assert result.code == 1
    assert "LoRA rank 64 is greater than max_lora_rank 16" in result.err
    assert "max_lora_rank" in result.err.partition("next: ")[2]
    diagnosed = app.lmi("diagnose", "tiny", "--json")
    assert diagnosed.code == 0
    assert json.loads(diagnosed.out)["causes"][0]["line"] == 5
    assert "the whole log: lmi logs tiny" in app.lmi("diagnose", "tiny").out


def test_deployment_that_serves_is_said_to_before_the_failures_of_its_requests(app: LocalApp) -> None:
    app.servers.next.append(Behaviour(why=LOG))
    assert app.lmi("up", "--yes").code == 0
    found = app.lmi("diagnose", "tiny")
    assert found.out.splitlines()[0] == (
        "the deployment is in step: it serves. What its log shows failed in a request, or in an earlier start:"
    )
    assert found.out.splitlines()[1].startswith("cause: ")
    assert app.lmi("diagnose", "tiny", "--json").result["serves"]


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_server_that_fails_in_the_foreground_is_diagnosed_or_says_how(
    app: LocalApp, flags: tuple[str, ...]
) -> None:
    Path("model").mkdir()
    Path("model/model.py").write_text("def handle(inputs):\n    return None\n")
    app.servers.foreground_ends_with = 1
    app.servers.foreground_lines = ("ModuleNotFoundError: No module named 'flash_attn'",)
    result = app.lmi("serve", "model", *flags)
    assert result.code == 1
    if flags:
        error = result.result["error"]
        assert "flash_attn" in error["message"]
        assert "requirements.txt" in error["hint"]
    else:
        assert "`lmi diagnose --log server.log` finds the cause" in result.err
