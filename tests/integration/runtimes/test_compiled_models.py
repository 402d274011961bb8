"""Compile scripts as real processes: what is stored, what is not, and what a script leaves that did not end well."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from lmi_deploy.domain.events import Event, Line, Progress
from lmi_deploy.errors import CompileFailed
from lmi_deploy.host.clock import SystemClock
from lmi_deploy.ports.compiled_models import CompileOrder, StoredCompile
from lmi_deploy.runtimes.compiled_models import MANIFEST, CompiledModelFolders

IDENTITY = "0123456789abcdef0123456789abcdef01234567"
HEAD = """
import argparse, pathlib, sys
given = argparse.ArgumentParser()
given.add_argument("--model", type=pathlib.Path)
given.add_argument("--output", type=pathlib.Path)
given.add_argument("--batch", type=int)
options = given.parse_args()
"""
GOOD = f"""{HEAD}
print("reading", flush=True)
(options.output / "part").mkdir()
(options.output / "part" / "graph.bin").write_bytes((options.model / "weights").read_bytes() * options.batch)
"""
SLEEPS = f"""{HEAD}
import subprocess, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
(options.output / "half").write_text("half")
print("child", child.pid, flush=True)
time.sleep(600)
"""
KILLED = """
import sys
from pathlib import Path
from tests.integration.runtimes.test_compiled_models import SLEEPS, ordered, place
for event in place(Path(sys.argv[1])).make(ordered(Path(sys.argv[1]), SLEEPS), key="k"):
    print(getattr(event, "text", ""), flush=True)
"""


def place(folder: Path) -> CompiledModelFolders:
    return CompiledModelFolders(folder / "compiled", {"PATH": os.environ["PATH"]})


def ordered(folder: Path, script: str, *, timeout: int = 60) -> CompileOrder:
    model = folder / "source"
    model.mkdir(exist_ok=True)
    (model / "weights").write_bytes(b"abc")
    return CompileOrder(
        identity=IDENTITY,
        script=script.encode(),
        arguments=(("batch", "2"),),
        model=model,
        python=Path(sys.executable),
        timeout=timeout,
        made_by="compile.py, batch 2",
    )


def made(folder: Path, order: CompileOrder, events: list[Event] | None = None) -> StoredCompile:
    making = place(folder).make(order, key="compile")
    while True:
        try:
            event = next(making)
        except StopIteration as stopped:
            result: StoredCompile = stopped.value
            return result
        if events is not None:
            events.append(event)


def ended(pid: int) -> bool:
    clock = SystemClock()
    for _ in range(100):
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        clock.sleep(0.05)
    return False


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "compiled").iterdir())


def test_result_is_stored_with_its_hashes_and_made_once(tmp_path: Path) -> None:
    assert place(tmp_path).find(IDENTITY) is None
    events: list[Event] = []
    result = made(tmp_path, ordered(tmp_path, GOOD), events)
    assert (result.folder / "part" / "graph.bin").read_bytes() == b"abcabc"
    assert [(file.path, file.size) for file in result.files] == [("part/graph.bin", 6)]
    assert "reading" in [event.text for event in events if isinstance(event, Line)]
    assert any(isinstance(event, Progress) and event.unit == "seconds" for event in events)
    assert place(tmp_path).find(IDENTITY) == result
    assert made(tmp_path, ordered(tmp_path, "raise SystemExit(1)")) == result
    assert left(tmp_path) == [IDENTITY]


@pytest.mark.parametrize(
    "damage",
    [
        lambda home: (home / MANIFEST).unlink(),
        lambda home: (home / MANIFEST).write_text('{"files": [{"path": 1}]}'),
        lambda home: (home / "model" / "part" / "graph.bin").unlink(),
        lambda home: (home / "model" / "part" / "graph.bin").write_bytes(b"abc"),
    ],
    ids=["no manifest", "bad manifest", "file missing", "file cut"],
)
def test_damaged_result_does_not_count_and_is_made_again(tmp_path: Path, damage: object) -> None:
    made(tmp_path, ordered(tmp_path, GOOD))
    assert callable(damage)
    damage(tmp_path / "compiled" / IDENTITY)
    assert place(tmp_path).find(IDENTITY) is None
    assert made(tmp_path, ordered(tmp_path, GOOD)).files[0].size == 6


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("print('loading')\nraise SystemExit(7)", "exit status 7"),
        ("import os\nos.kill(os.getpid(), 9)", "ended by signal 9"),
        (HEAD, "wrote no file"),
        (f"{HEAD}\nimport os\nos.symlink('/etc/passwd', options.output / 'x')", "a link to another place"),
    ],
    ids=["status", "signal", "nothing written", "link"],
)
def test_failed_script_leaves_nothing_but_its_log(tmp_path: Path, script: str, why: str) -> None:
    with pytest.raises(CompileFailed, match=why):
        made(tmp_path, ordered(tmp_path, script))
    assert place(tmp_path).find(IDENTITY) is None
    assert set(left(tmp_path)) <= {f"{IDENTITY}.log"}


def test_last_lines_are_in_the_error(tmp_path: Path) -> None:
    script = "for n in range(100): print('line', n)\nraise ValueError('no such head')"
    with pytest.raises(CompileFailed) as caught:
        made(tmp_path, ordered(tmp_path, script))
    assert caught.value.details[-1] == "ValueError: no such head"
    assert len(caught.value.details) == 20
    assert "line 3\n" in (tmp_path / "compiled" / f"{IDENTITY}.log").read_text()


def test_script_over_its_limit_is_ended_with_its_children(tmp_path: Path) -> None:
    events: list[Event] = []
    with pytest.raises(CompileFailed, match="longer than its limit"):
        made(tmp_path, ordered(tmp_path, SLEEPS, timeout=1), events)
    [child] = [int(event.text.split()[1]) for event in events if isinstance(event, Line)]
    assert ended(child)
    assert left(tmp_path) == [f"{IDENTITY}.log"]


def test_ctrl_c_ends_the_script_and_its_children(tmp_path: Path) -> None:
    making = place(tmp_path).make(ordered(tmp_path, SLEEPS), key="compile")
    line = next(event for event in making if isinstance(event, Line))
    with pytest.raises(KeyboardInterrupt):
        making.throw(KeyboardInterrupt())
    assert ended(int(line.text.split()[1]))
    assert place(tmp_path).find(IDENTITY) is None
    assert left(tmp_path) == [f"{IDENTITY}.log"]


def test_script_of_a_killed_lmi_is_ended_by_the_next(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", KILLED, str(tmp_path)]
    root = Path(__file__).parents[3]
    with subprocess.Popen(argv, cwd=root, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        child = next(int(line.split()[1]) for line in killed.stdout if line.startswith("child"))
        script = json.loads((tmp_path / "compiled" / f".{IDENTITY}.lock").read_text())["pid"]
        killed.send_signal(signal.SIGKILL)
    assert not ended_now(script)
    assert made(tmp_path, ordered(tmp_path, GOOD)).files[0].size == 6
    assert ended(script)
    assert ended(child)
    assert left(tmp_path) == [IDENTITY]


def test_stop_ends_the_script_of_another_process(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", KILLED, str(tmp_path)]
    root = Path(__file__).parents[3]
    assert not place(tmp_path).stop(IDENTITY)
    with subprocess.Popen(argv, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stderr is not None
        child = next(int(line.split()[1]) for line in other.stdout if line.startswith("child"))
        assert place(tmp_path).running(IDENTITY)
        assert place(tmp_path).stop(IDENTITY)
        assert "ended by signal" in other.stderr.read()
    assert ended(child)
    assert not place(tmp_path).running(IDENTITY)


def ended_now(pid: int) -> bool:
    return not psutil.pid_exists(pid)
