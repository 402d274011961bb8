"""Where a command's result goes: files that cannot be written, streams that are full, closed or not UTF-8."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lmi_deploy import __version__
from tests.support.local_app import House

FULL = Path("/dev/full")


@pytest.mark.parametrize(
    ("command", "place"),
    [
        (("render", "-o", "file/out"), "file/out"),
        (("plan", "--out", "nowhere/plan.json"), "nowhere/plan.json"),
        (("init", "org/tiny", "-o", "nowhere/tiny.yaml"), "nowhere/tiny.yaml"),
    ],
)
def test_a_place_that_cannot_be_written_is_the_users_to_mend(
    house: House, command: tuple[str, ...], place: str
) -> None:
    Path("file").touch()
    ran = house.lmi(*command)
    assert (ran.code, ran.out) == (2, "")
    assert f"error: {place}: " in ran.err
    assert ran.err.endswith("  next: name a place that exists, has room, and is yours to write\n")


@pytest.mark.parametrize("amount", ["nan", "-1"])
def test_a_bound_that_bounds_nothing_is_refused(house: House, amount: str) -> None:
    ran = house.lmi("up", "--yes", "--max-hourly", amount)
    assert (ran.code, ran.out) == (2, "")
    assert "is no amount of dollars" in ran.err
    assert house.kept() == []


def _shell(command: str, **environ: str) -> subprocess.CompletedProcess[bytes]:
    """A shell's own redirections, around this interpreter's `lmi`."""
    line = command.replace("lmi ", f"{sys.executable} -m lmi_deploy.cli ", 1)
    return subprocess.run(["sh", "-c", line], capture_output=True, check=False, env={**os.environ, **environ})


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("command", ["lmi schema", "lmi images"])  # more than a buffer, and less than one
def test_a_full_disk_behind_stdout_is_no_bug_of_ours(command: str) -> None:
    ran = _shell(f"{command} > /dev/full")
    assert ran.returncode == 1
    assert ran.stderr.decode() == (
        "error: a disk of this machine, or what stdout goes to: No space left on device\n"
        "  next: see that there is room (`df -h`), then run it again\n"
    )


def test_a_full_disk_elsewhere_is_told_on_stdout_too(house: House) -> None:
    house.hub.failure = OSError(errno.ENOSPC, "No space left on device")
    ran = house.lmi("plan", "--json")
    assert (ran.code, ran.err) == (1, "")
    assert ran.result["error"]["message"] == (
        "a disk of this machine, or what stdout goes to: No space left on device"
    )


def test_a_stdout_that_is_closed_takes_nothing_and_is_no_error() -> None:
    ran = _shell("lmi schema >&-")
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_a_terminal_without_utf_8_gets_what_it_can_show(tmp_path: Path) -> None:
    recipe = tmp_path / "empf\u00e4nger.yaml"
    recipe.write_text("name: tiny\nmodel_id: org/tiny\nengine: accelerate\nendpoint: {target: local}\n")
    ran = _shell(f"lmi validate '{recipe}'", PYTHONIOENCODING="ascii", PYTHONUTF8="1")
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert ran.stdout.endswith(b"empf\\xe4nger.yaml: good\n")


def test_a_bug_is_told_where_no_report_can_be_written(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", "/nowhere/at/all")
    house.hub.failure = ZeroDivisionError("burst")
    ran = house.lmi("plan")
    assert ran.code == 3
    assert "error: ZeroDivisionError: burst" in ran.err
    assert "no report could be written" in ran.err


@pytest.mark.parametrize("model", ["", "a/b/c", "s3://"])
def test_init_says_what_a_model_is_called_before_it_looks_anywhere(house: House, model: str) -> None:
    ran = house.lmi("init", model)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: MODEL: ")
    assert "owner/name on the Hub" in ran.err


@pytest.mark.parametrize("files", [(), ("notes.txt", "model.gguf")])
def test_init_of_a_folder_without_a_model_says_what_one_is(house: House, files: tuple[str, ...]) -> None:
    Path("here").mkdir()
    for name in files:
        Path("here", name).touch()
    house.hub.models["./here"] = dict.fromkeys(files, b"")
    ran = house.lmi("init", "./here")
    assert (ran.code, ran.out) == (2, "")
    assert "holds weights (*.safetensors, *.bin" in ran.err
    assert "next: a model is config.json, *.safetensors and the tokenizer's files" in ran.err
    assert "allow_pickle" not in ran.err
    assert not Path("here.yaml").exists()


def test_init_names_the_command_that_writes_the_schema_it_points_at(house: House) -> None:
    ran = house.lmi("init", "org/tiny", "-o", "new.yaml")
    assert (ran.code, ran.out) == (0, "new.yaml\n")
    assert "for your editor: lmi schema > recipe.schema.json\n" in ran.err
    assert "`lmi schema > recipe.schema.json` writes it" in Path("new.yaml").read_text()
    Path("recipe.schema.json").write_text(house.lmi("schema").out)
    assert "lmi schema" not in house.lmi("init", "org/tiny", "-o", "newer.yaml").err


def test_json_before_the_command_is_told_where_it_goes(house: House) -> None:
    ran = house.lmi("--json", "plan")
    assert (ran.code, ran.err) == (2, "")
    assert ran.result["error"]["hint"] == "--json goes behind the command: lmi COMMAND --json"


def test_an_error_after_a_question_without_an_answer_begins_its_own_line(house: House) -> None:
    ran = house.lmi("up", stdin=b"", terminal=True)
    assert ran.code == 130
    assert "Go ahead? [Y/n] \nerror: " in ran.err


@pytest.mark.parametrize(("ended", "code"), [(0, 0), (130, 130), (143, 143), (1, 1), (137, 1)])
def test_serve_says_so_when_the_server_ended_by_itself(house: House, ended: int, code: int) -> None:
    Path("model").mkdir()
    Path("model/serving.properties").write_text("engine=Python\noption.model_id=x\n")
    Path("model/model.py").write_text("def handle(inputs):\n    return None\n")
    house.servers.foreground_ends_with = ended
    ran = house.lmi("serve", "model")
    assert ran.code == code
    assert (f"error: model: the model server ended by itself, with {ended}\n" in ran.err) == (code == 1)
    assert house.lmi("serve", "model", "--port", "65536").code == 2


def test_serve_with_json_prints_nothing_but_json_lines(house: House) -> None:
    Path("model").mkdir()
    Path("model/model.py").write_text("def handle(inputs):\n    return None\n")
    ran = house.lmi("serve", "model", "--json")
    assert ran.err == ""
    assert {"event": "line", "key": "server", "text": "a line of the server's"} in ran.lines
    assert (ran.result["ok"], ran.result["exit_code"]) == (True, 0)


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
def test_a_json_result_that_stdout_does_not_take_is_told_on_stderr() -> None:
    for command in ("lmi ls --json", "lmi validate nope.yaml --json"):
        ran = _shell(f"{command} > /dev/full")
        told = ran.stderr.decode()
        assert ran.returncode in (1, 2)
        assert told.startswith("error: ")
        assert "Traceback" not in told
    assert _shell("lmi ls --json > /dev/full 2> /dev/full").returncode == 1


@pytest.mark.parametrize("closed", [">&- 2>&-", "<&- >&- 2>&-", "2>&-"])
@pytest.mark.parametrize(
    ("command", "code"),
    [("lmi validate nope.yaml", 2), ("lmi ls", 0), ("lmi ls --json", 0), ("lmi nonsense", 2)],
)
def test_closed_streams_take_nothing_and_change_no_exit_code(
    command: str, code: int, closed: str, tmp_path: Path
) -> None:
    ran = _shell(f"{command} {closed}", LMI_STATE_HOME=str(tmp_path))
    assert ran.returncode == code
    assert b"Traceback" not in ran.stderr


def test_the_version_as_json() -> None:
    for words in ("--version --json", "--json --version"):
        ran = _shell(f"lmi {words}")
        assert (ran.returncode, ran.stderr) == (0, b"")
        assert json.loads(ran.stdout) == {"event": "result", "ok": True, "version": __version__}


def test_windows_is_refused_with_a_word_about_wsl() -> None:
    code = "import sys; sys.platform = 'win32'; from lmi_deploy.cli import main; main()"
    ran = subprocess.run([sys.executable, "-c", code, "up"], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "wsl --install" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("command", [("plan",), ("up", "--yes")])
def test_a_disk_that_cannot_hold_the_weights_stops_the_plan(house: House, command: tuple[str, ...]) -> None:
    house.hub.free = 10
    ran = house.lmi(*command)
    assert ran.code == 1
    assert "bytes are to come, and there are 10 free" in ran.err
    assert house.kept() == []
    house.hub.free = 1 << 40
    assert house.lmi(*command).code == 0
    house.hub.free = 0
    assert house.lmi("up", "--yes").code == (
        1 if command == ("plan",) else 0
    )  # what is here already needs no room
