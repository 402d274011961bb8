"""What a key press offers: from the tables, from the folder, from this machine's state; in the real shells, too."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lmi_deploy.cli.completer import FILES, FOLDERS, answer, candidates
from lmi_deploy.cli.completion_scripts import SCRIPTS
from tests.support.local_app import LocalApp

LMI = Path(sys.executable).with_name("lmi")
RECIPE = "name: tiny\nmodel_id: org/m\nengine: accelerate\nendpoint: {target: local}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a recipe, another YAML file, and the state of two deployments."""
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(RECIPE)
    Path("other.yaml").write_text("a: b\n")
    Path("state/deployments/here").mkdir(parents=True)
    Path("state/elsewhere").mkdir()
    Path("state/elsewhere/chat.us-east-1.123456789012.json").write_text("{}")
    monkeypatch.setenv("LMI_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def offered(*words: str) -> list[str]:
    return [
        word for word, meaning in candidates(words, os.environ) if (word, meaning) not in (FILES, FOLDERS)
    ]


def test_commands_are_offered_with_their_meaning(folder: Path) -> None:
    assert offered("sta") == ["status"]
    assert dict(candidates(["unl"], {}))["unlock"] == "Remove a stale lock."
    assert offered("weights", "pu") == ["push"]
    assert "ls" in offered("cache", "")


def test_options_are_offered_once_unless_they_repeat(folder: Path) -> None:
    assert {"--set", "--json", "--yes"} <= {*offered("up", "--")}
    assert "--json" not in offered("up", "--json", "--")
    assert "--set" in offered("up", "--set", "a=b", "--s")
    assert offered("up", "--runtime", "em") == ["embedded"]
    assert offered("up", "--runtime=em") == ["--runtime=embedded"]
    assert offered("up", "--max-hourly", "") == []


def test_keys_and_values_of_set_are_offered(folder: Path) -> None:
    assert offered("up", "--set", "endpoint.ta") == ["endpoint.target=", "endpoint.tags="]
    assert offered("up", "--set", "endpoint.target=") == [
        "endpoint.target=sagemaker",
        "endpoint.target=local",
    ]
    assert offered("up", "--set", "instance_type=ml.g5.12") == ["instance_type=ml.g5.12xlarge"]
    assert offered("up", "--set", "weights.job.instance_type=ml.c4.2") == [
        "weights.job.instance_type=ml.c4.2xlarge"
    ]
    assert offered("up", "--set", "trust_remote_code=t") == ["trust_remote_code=true"]
    assert offered("up", "--set", "opt") == ["options."]


def test_options_of_set_are_those_of_the_engine_of_the_recipe(folder: Path) -> None:
    names = offered("up", "tiny.yaml", "--set", "options.")
    assert "options.device_map=" in names
    assert "options.max_num_seqs=" not in names
    Path("vllm.yaml").write_text("name: v\nmodel_id: org/m\nengine: vllm  # the default\n")
    assert "options.max_num_seqs=" in offered("up", "vllm.yaml", "--set", "options.max_num")
    assert "options.async_mode=true" in offered("up", "tiny.yaml", "--set", "options.async_mode=")


def test_deployments_and_recipes_are_those_of_this_machine(folder: Path) -> None:
    assert offered("status", "") == ["chat", "here", "tiny.yaml"]
    assert offered("up", "") == ["tiny.yaml"]
    assert FILES in [*candidates(["up", ""], {})]
    assert offered("plan", "tiny.yaml", "") == []
    assert offered("up", "tiny.yaml", "") == ["tiny.yaml"]  # it takes several
    assert FILES in [*candidates(["serve", ""], {})]
    assert FOLDERS in [*candidates(["render", "--output", ""], {})]
    assert offered("docs", "exit") == ["exit-codes"]
    assert offered("explain", "endpoint.reg") == ["endpoint.region", "endpoint.regions"]


@pytest.mark.parametrize(
    "words", [(), ("",), ("no-such",), ("up", "--no-such", ""), ("--",), ("weights", "x", "")]
)
def test_nonsense_is_answered_by_silence(
    folder: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    answer(words, {"_LMI_COMPLETE": "zsh"})
    assert "Traceback" not in "".join(capsys.readouterr())


def test_key_press_imports_neither_click_nor_a_command(folder: Path) -> None:
    program = (
        "import sys, lmi_deploy.cli as cli; sys.argv = ['lmi', 'up', '--set', 'endpoint.target=']; cli.main(); "
        "print([m for m in ('click', 'pydantic', 'yaml', 'lmi_deploy.cli.signals', 'lmi_deploy.cli.commands') "
        "if m in sys.modules])"
    )
    environment = {**os.environ, "_LMI_COMPLETE": "bash"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["plain\tsagemaker\t", "plain\tlocal\t", "[]"]


@pytest.mark.parametrize("shell", SCRIPTS)
def test_script_is_printed_for_people_and_programs(app: LocalApp, shell: str) -> None:
    assert app.lmi("completion", shell).out == SCRIPTS[shell]
    assert json.loads(app.lmi("completion", shell, "--json").out)["script"] == SCRIPTS[shell]


CASES = [
    ("lmi sta", "lmi status "),
    ("lmi up --runtime em", "lmi up --runtime embedded "),
    ("lmi up --set endpoint.runt", "lmi up --set endpoint.runtime="),
    ("lmi up --set endpoint.target=lo", "lmi up --set endpoint.target=local "),
    ("lmi down he", "lmi down here "),
    ("lmi up ti", "lmi up tiny.yaml "),
]


@pytest.mark.parametrize(("typed", "line"), CASES)
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_key_in_a_real_shell_completes_the_line(folder: Path, shell: str, typed: str, line: str) -> None:
    program = _installed(shell)
    argv = {"bash": [program, "--norc", "--noprofile", "-i"], "zsh": [program, "-f", "-i"]}[shell]
    setup = f'eval "$(lmi completion {shell})"'
    if shell == "zsh":
        setup = f"autoload -U compinit; compinit -u -D; {setup}"
    with_terminal = _Terminal(argv)
    try:
        with_terminal.send(f"PS1='> '; {setup}; echo re''ady\n")
        with_terminal.until(lambda text: "ready\r" in text)
        with_terminal.send(f"{typed}\t")
        with_terminal.until(lambda text: line in text.rpartition("> ")[2].replace("\x1b[K", ""))
    finally:
        with_terminal.close()


@pytest.mark.parametrize(("typed", "line"), CASES)
def test_fish_completes_the_same(folder: Path, typed: str, line: str) -> None:
    program = _installed("fish")
    script = f"lmi completion fish | source; complete -C '{typed}'"
    done = subprocess.run(
        [program, "--no-config", "-c", script], env=_environment(), capture_output=True, text=True, check=True
    )
    assert line.split()[-1] in [found.split("\t")[0] for found in done.stdout.splitlines()], done.stdout


def _installed(shell: str) -> str:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    return program


def _environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{LMI.parent}{os.pathsep}{os.environ['PATH']}", "TERM": "dumb"}


class _Terminal:
    """A shell in a terminal of its own, and what it has shown."""

    def __init__(self, argv: list[str]) -> None:
        self._controller, worker = pty.openpty()
        self._shell = subprocess.Popen(
            argv, stdin=worker, stdout=worker, stderr=worker, env=_environment(), start_new_session=True
        )
        os.close(worker)
        self._text = ""

    def send(self, text: str) -> None:
        os.write(self._controller, text.encode())

    def until(self, seen: Callable[[str], bool], seconds: float = 30) -> None:
        for part in self._parts(seconds):
            self._text += part
            if seen(self._text):
                return
        raise AssertionError(f"not seen in: {self._text!r}")

    def _parts(self, seconds: float) -> Iterator[str]:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not select.select([self._controller], [], [], left)[0]:
                return
            yield os.read(self._controller, 65536).decode(errors="replace")

    def close(self) -> None:
        self._shell.kill()
        self._shell.wait()
        os.close(self._controller)
