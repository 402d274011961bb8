"""Outputs of commands: files that cannot be written, streams that are full, closed or not UTF-8."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lmi_deploy import __version__
from lmi_deploy.cli.output_schema import VERSION
from tests.support.local_app import LocalApp

FULL = Path("/dev/full")


@pytest.mark.parametrize(
    ("command", "place"),
    [
        (("render", "-o", "file/out"), "file/out"),
        (("plan", "--out", "nowhere/plan.json"), "nowhere/plan.json"),
        (("init", "org/tiny", "-o", "nowhere/tiny.yaml"), "nowhere/tiny.yaml"),
    ],
)
def test_unwritable_output_path_is_a_usage_error(app: LocalApp, command: tuple[str, ...], place: str) -> None:
    Path("file").touch()
    result = app.lmi(*command)
    assert (result.code, result.out) == (2, "")
    assert f"error: {place}: " in result.err
    assert result.err.endswith(
        "  next: name an existing folder that has free space and that you may write to\n"
    )


@pytest.mark.parametrize("amount", ["nan", "-1"])
def test_invalid_max_hourly_is_refused(app: LocalApp, amount: str) -> None:
    result = app.lmi("up", "--yes", "--max-hourly", amount)
    assert (result.code, result.out) == (2, "")
    assert "is not an amount of dollars" in result.err
    assert app.artifacts_left() == []


def _shell(command: str, **environ: str) -> subprocess.CompletedProcess[bytes]:
    """Runs a shell command with redirections, around this interpreter's `lmi`."""
    line = command.replace("lmi ", f"{sys.executable} -m lmi_deploy.cli ", 1)
    return subprocess.run(["sh", "-c", line], capture_output=True, check=False, env={**os.environ, **environ})


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("command", ["lmi schema", "lmi images"])  # more than one buffer, and less than two
def test_full_disk_behind_stdout_is_an_error_and_not_a_bug(command: str) -> None:
    result = _shell(f"{command} > /dev/full")
    assert result.returncode == 1
    assert result.stderr.decode() == (
        "error: a disk of this machine, or the target of stdout: No space left on device\n  next: free some space "
        "(`df -h` shows the disks), then run the command again\n"
    )


def test_full_disk_elsewhere_is_an_error_and_not_a_bug(app: LocalApp) -> None:
    app.hub.failure = OSError(errno.ENOSPC, "No space left on device")
    result = app.lmi("plan", "--json")
    assert (result.code, result.err) == (1, "")
    assert result.result["error"]["message"] == (
        "a disk of this machine, or the target of stdout: No space left on device"
    )


def test_closed_stdout_is_no_error() -> None:
    result = _shell("lmi schema >&-")
    assert (result.returncode, result.stderr) == (0, b"")


def test_stdout_without_utf_8_gets_escaped_text(tmp_path: Path) -> None:
    recipe = tmp_path / "empf\u00e4nger.yaml"
    recipe.write_text("name: tiny\nmodel_id: org/tiny\nengine: accelerate\nendpoint: {target: local}\n")
    result = _shell(f"lmi validate '{recipe}'", PYTHONIOENCODING="ascii", PYTHONUTF8="1")
    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout.endswith(b"empf\\xe4nger.yaml: valid\n")


def test_bug_is_reported_without_a_writable_report_folder(
    app: LocalApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", "/nowhere/at/all")
    app.hub.failure = ZeroDivisionError("burst")
    result = app.lmi("plan")
    assert result.code == 3
    assert "error: ZeroDivisionError: burst" in result.err
    assert "the report file could not be written" in result.err


@pytest.mark.parametrize("model", ["", "a/b/c", "s3://"])
def test_init_explains_an_invalid_model_name(app: LocalApp, model: str) -> None:
    result = app.lmi("init", model)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: MODEL: ")
    assert "owner/name for the Hub" in result.err


@pytest.mark.parametrize("files", [(), ("notes.txt", "model.tflite")])
def test_init_of_a_folder_without_weights_is_refused(app: LocalApp, files: tuple[str, ...]) -> None:
    Path("here").mkdir()
    for name in files:
        Path("here", name).touch()
    app.hub.models["./here"] = dict.fromkeys(files, b"")
    result = app.lmi("init", "./here")
    assert (result.code, result.out) == (2, "")
    assert "no weights file (*.safetensors, *.bin" in result.err
    assert "next: name a folder with config.json, *.safetensors and the tokenizer's files" in result.err
    assert "allow_pickle" not in result.err
    assert not Path("here.yaml").exists()


def test_init_names_the_command_that_writes_the_schema(app: LocalApp) -> None:
    result = app.lmi("init", "org/tiny", "-o", "new.yaml")
    assert (result.code, result.out) == (0, "new.yaml\n")
    assert "for your editor: lmi schema > recipe.schema.json\n" in result.err
    assert "`lmi schema > recipe.schema.json` writes it" in Path("new.yaml").read_text()
    Path("recipe.schema.json").write_text(app.lmi("schema").out)
    assert "lmi schema" not in app.lmi("init", "org/tiny", "-o", "newer.yaml").err


def test_json_before_the_command_is_refused_with_a_hint(app: LocalApp) -> None:
    result = app.lmi("--json", "plan")
    assert (result.code, result.err) == (2, "")
    assert result.result["error"]["hint"] == "write --json after the command: lmi COMMAND --json"


def test_error_after_an_unanswered_prompt_starts_on_a_new_line(
    app: LocalApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    result = app.lmi("up", stdin=b"", terminal=True)
    assert result.code == 130
    assert "Go ahead? [Y/n] \n\x1b[31merror:\x1b[0m " in result.err
    monkeypatch.setenv("NO_COLOR", "1")
    result = app.lmi("up", stdin=b"", terminal=True)
    assert "Go ahead? [Y/n] \nerror: " in result.err


@pytest.mark.parametrize(("ended", "code"), [(0, 0), (130, 130), (143, 143), (1, 1), (137, 1)])
def test_serve_exit_code_follows_the_exit_of_the_server(app: LocalApp, ended: int, code: int) -> None:
    Path("model").mkdir()
    Path("model/serving.properties").write_text("engine=Python\noption.model_id=x\n")
    Path("model/model.py").write_text("def handle(inputs):\n    return None\n")
    app.servers.foreground_ends_with = ended
    result = app.lmi("serve", "model")
    assert result.code == code
    assert (f"error: model: the model server ended with exit code {ended}\n" in result.err) == (code == 1)
    assert app.lmi("serve", "model", "--port", "65536").code == 2


def test_serve_answers_management_requests_only_if_asked_to(app: LocalApp) -> None:
    Path("model").mkdir()
    Path("model/model.py").write_text("def handle(inputs):\n    return None\n")
    for flags in ((), ("--management",)):
        assert app.lmi("serve", "model", *flags).code == 0
    assert [launch.managed_by_clients for launch in app.servers.started] == [False, True]


def test_serve_json_output_is_json_lines_only(app: LocalApp) -> None:
    Path("model").mkdir()
    Path("model/model.py").write_text("def handle(inputs):\n    return None\n")
    result = app.lmi("serve", "model", "--json")
    assert result.err == ""
    assert {"event": "line", "key": "server", "text": "a line of the server's"} in result.lines
    assert (result.result["ok"], result.result["exit_code"]) == (True, 0)


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
def test_json_result_that_cannot_be_written_is_reported_on_stderr() -> None:
    for command in ("lmi ls --json", "lmi validate nope.yaml --json"):
        result = _shell(f"{command} > /dev/full")
        output = result.stderr.decode()
        assert result.returncode in (1, 2)
        assert output.startswith("error: ")
        assert "Traceback" not in output
    assert _shell("lmi ls --json > /dev/full 2> /dev/full").returncode == 1


@pytest.mark.parametrize("closed", [">&- 2>&-", "<&- >&- 2>&-", "2>&-"])
@pytest.mark.parametrize(
    ("command", "code"),
    [("lmi validate nope.yaml", 2), ("lmi ls", 0), ("lmi ls --json", 0), ("lmi nonsense", 2)],
)
def test_closed_streams_do_not_change_the_exit_code(
    command: str, code: int, closed: str, tmp_path: Path
) -> None:
    result = _shell(f"{command} {closed}", LMI_STATE_HOME=str(tmp_path))
    assert result.returncode == code
    assert b"Traceback" not in result.stderr


def test_version_as_json() -> None:
    for words in ("--version --json", "--json --version"):
        result = _shell(f"lmi {words}")
        assert (result.returncode, result.stderr) == (0, b"")
        versions = {"version": __version__, "json_output": VERSION}
        assert json.loads(result.stdout) == {"event": "result", "ok": True, **versions}


def test_windows_is_refused_with_a_hint_to_wsl() -> None:
    code = "import sys; sys.platform = 'win32'; from lmi_deploy.cli import main; main()"
    result = subprocess.run([sys.executable, "-c", code, "up"], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "wsl --install" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("command", [("plan",), ("up", "--yes")])
def test_plan_is_refused_when_the_disk_cannot_hold_the_weights(
    app: LocalApp, command: tuple[str, ...]
) -> None:
    app.hub.free = 10
    result = app.lmi(*command)
    assert result.code == 1
    assert "bytes to download, but only 10 are free" in result.err
    assert app.artifacts_left() == []
    app.hub.free = 1 << 40
    assert app.lmi(*command).code == 0
    app.hub.free = 0
    assert app.lmi("up", "--yes").code == (1 if command == ("plan",) else 0)  # cached weights need no space
