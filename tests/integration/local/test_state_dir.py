"""The folder of local deployments: complete records after any failure, one writer at a time."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lmi_deploy.domain.local_actions import BuildEnvironment, FetchWeights, PutArtifact, StopServer
from lmi_deploy.domain.record import KEPT_GENERATIONS, SCHEMA, DeploymentRef, Record
from lmi_deploy.errors import LmiError, Refused, UsageRefused
from lmi_deploy.host.clock import SystemClock
from lmi_deploy.host.file_lock import file_lock
from lmi_deploy.state.state_dir import FileJournal, FileLock, StateDir
from tests.support.factories import generation

REF = DeploymentRef(name="tiny", target="local")
STOP = StopServer(server="tiny-1")
PUT = PutArtifact(artifact="0123456789", files=("model.py",))
FETCH = FetchWeights(model_id="org/m", commit="c", files=(), missing=3)


@pytest.fixture
def folder(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "state")


@pytest.fixture
def journal(folder: StateDir) -> FileJournal:
    return FileJournal(folder, REF)


def _read(folder: StateDir) -> Record:
    record = folder.read("tiny")
    assert record is not None
    return record


def test_intent_is_on_disk_before_its_outcome(folder: StateDir, journal: FileJournal) -> None:
    journal.begin(FETCH)
    started = _read(folder).intents[0]
    assert (started.action, started.names["missing"], started.outcome) == ("FetchWeights", 3, None)
    journal.complete(FETCH, "3 bytes")
    journal.begin(STOP)
    assert [intent.outcome for intent in _read(folder).intents] == ["3 bytes", None]


def test_repeated_intent_is_stored_once(folder: StateDir, journal: FileJournal) -> None:
    journal.begin(STOP)
    journal.begin(STOP)
    journal.complete(STOP, "gone")
    assert [intent.outcome for intent in _read(folder).intents] == ["gone"]


def test_commit_keeps_the_last_generations_without_duplicates(folder: StateDir, journal: FileJournal) -> None:
    journal.begin(STOP)
    for number in range(KEPT_GENERATIONS + 2):
        journal.commit(generation(f"tiny-{number}"))
    journal.commit(generation("tiny-4"))
    record = _read(folder)
    assert [g.server for g in record.generations] == ["tiny-2", "tiny-3", "tiny-5", "tiny-6", "tiny-4"]
    assert record.intents == ()
    assert record.current == generation("tiny-4")


def test_outcome_is_stored_for_an_action_with_list_fields(folder: StateDir, journal: FileJournal) -> None:
    build = BuildEnvironment(environment="e", packages=("six", "idna"), requirements="")
    journal.begin(build)
    journal.complete(build, "up")
    assert [(i.names["packages"], i.outcome) for i in _read(folder).intents] == [(["six", "idna"], "up")]


def test_names_lists_deployments_with_and_without_a_record(folder: StateDir, journal: FileJournal) -> None:
    assert folder.names() == ()
    journal.begin(STOP)
    folder.artifact("bare", "d1").mkdir(parents=True)
    (folder.root / "deployments" / "Not A Name").mkdir()
    assert folder.names() == ("bare", "tiny")
    assert folder.read("bare") is None


def test_remove_deletes_everything_and_is_idempotent(folder: StateDir, journal: FileJournal) -> None:
    journal.begin(STOP)
    folder.artifact("tiny", "d1").mkdir(parents=True)
    (folder.server("tiny", "tiny-1")).mkdir(parents=True)
    (folder.server("tiny", "tiny-1") / "log").write_text("x")
    folder.remove("tiny")
    folder.remove("tiny")
    assert not list((folder.root / "deployments").iterdir())


@pytest.mark.parametrize("name", ["../x", "", "a/b", ".", "A"])
def test_name_outside_the_folder_is_refused(folder: StateDir, name: str) -> None:
    with pytest.raises(UsageRefused):
        folder.remove(name)


def test_truncated_record_is_quarantined_and_never_misread(folder: StateDir, journal: FileJournal) -> None:
    journal.commit(generation("tiny-1"))
    path = folder.home("tiny") / "record.json"
    content = path.read_bytes()
    for length in range(len(content) - 1):
        path.write_bytes(content[:length])
        assert folder.read("tiny") is None
        assert str(path) in folder.unreadable_reason("tiny")
    cut = path.read_bytes()
    journal.begin(STOP)
    assert path.with_name("record.json.bak1").read_bytes() == cut
    assert _read(folder).intents[0].action == "StopServer"
    path.write_bytes(b"\xff\xfe")
    journal.begin(STOP)
    assert path.with_name("record.json.bak1").read_bytes() == cut
    assert path.with_name("record.json.bak2").read_bytes() == b"\xff\xfe"


def test_record_of_a_newer_lmi_is_refused_and_unchanged(folder: StateDir, journal: FileJournal) -> None:
    journal.commit(generation("tiny-1"))
    path = folder.home("tiny") / "record.json"
    newer = json.dumps({"schema": SCHEMA + 1, "ref": "otherwise"})
    path.write_text(newer)
    with pytest.raises(Refused, match="newer lmi") as caught:
        folder.read("tiny")
    assert "newer lmi" in caught.value.hint
    with pytest.raises(Refused):
        journal.begin(STOP)
    assert path.read_text() == newer


def test_unwritable_state_folder_is_reported_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file, where the folder should be")
    with pytest.raises(LmiError, match="disk error: Not a directory") as caught:
        FileJournal(StateDir(tmp_path / "state"), REF).begin(PUT)
    assert "LMI_STATE_HOME" in caught.value.hint
    with pytest.raises(LmiError, match="disk error"), _lock(tmp_path / "state").hold("tiny"):
        pass


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_full_disk_leaves_the_record_unchanged(folder: StateDir, journal: FileJournal) -> None:
    journal.begin(PUT)
    (folder.home("tiny") / "record.json.tmp").symlink_to("/dev/full")
    with pytest.raises(LmiError, match="No space left on device"):
        journal.complete(PUT, "written")
    assert _read(folder).intents[0].outcome is None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_stop_actions_work_on_a_full_disk(folder: StateDir, journal: FileJournal) -> None:
    journal.begin(PUT)
    (folder.home("tiny") / "record.json.tmp").symlink_to("/dev/full")
    journal.begin(STOP)
    journal.complete(STOP, "gone")
    assert [intent.action for intent in _read(folder).intents] == ["PutArtifact"]


KILLED = """
import os, signal, sys
from pathlib import Path
from lmi_deploy.state import state_dir as folder
from lmi_deploy.domain.local_actions import PutArtifact, StopServer
from lmi_deploy.domain.record import DeploymentRef
EFFECTS = ("mkdir", "open", "write_text", "write_bytes", "rename", "replace", "unlink")

def run(root, fatal):
    seen = 0
    def trace(frame, event, _):
        nonlocal seen
        code = frame.f_code
        if code.co_filename != folder.__file__ and (
            "pathlib" not in code.co_filename or code.co_name not in EFFECTS
        ):
            return None
        seen += event == "line"
        if seen == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace
    journal = folder.FileJournal(folder.StateDir(root), DeploymentRef(name="tiny", target="local"))
    journal.begin(StopServer(server="a"))
    sys.settrace(trace)
    journal.complete(StopServer(server="a"), "gone")
    journal.begin(StopServer(server="b"))
    os._exit(0)

number, status = 0, 1
while status:
    number += 1
    child = os.fork()
    if not child:
        run(Path(sys.argv[1]) / str(number), number)
    status = os.waitpid(child, 0)[1]
print(number)
"""


def test_kill_at_any_line_leaves_the_old_or_the_new_record(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, text=True, check=True
    )
    count = int(result.stdout)
    assert count > 50
    observed = []
    for number in range(1, count + 1):
        folder = StateDir(tmp_path / str(number))
        assert folder.unreadable_reason("tiny") == ""
        record = folder.read("tiny")
        assert record is not None
        observed.append(tuple(intent.outcome for intent in record.intents))
        FileJournal(folder, REF).begin(STOP)
        folder.remove("tiny")
        assert folder.names() == ()
    history = [(None,), ("gone",), ("gone", None)]
    assert sorted(set(observed), key=history.index) == history
    assert observed == sorted(observed, key=history.index)


def _lock(root: Path) -> FileLock:
    return FileLock(root, SystemClock(), "lmi up")


HOLDER = """
import sys
from pathlib import Path
from lmi_deploy.host.clock import SystemClock
from lmi_deploy.state.state_dir import FileLock
with FileLock(Path(sys.argv[1]), SystemClock(), "lmi up").hold("tiny"):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def _other_holder(root: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        try:
            yield other
        finally:
            other.kill()


def test_locked_error_names_the_owner(tmp_path: Path) -> None:
    with _other_holder(tmp_path) as other:
        with pytest.raises(Refused, match=rf"tiny: locked by lmi up \(pid {other.pid} on ") as caught:
            with _lock(tmp_path).hold("tiny"):
                pass
        assert caught.value.hint
        assert f"pid {other.pid}" in _lock(tmp_path).holder("tiny")
        with _lock(tmp_path).hold("other"):
            pass


def test_lock_of_a_killed_owner_is_free(tmp_path: Path) -> None:
    with _other_holder(tmp_path) as other:
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
        assert _lock(tmp_path).holder("tiny") == ""
        with _lock(tmp_path).hold("tiny"):
            assert f"pid {os.getpid()}" in _lock(tmp_path).holder("tiny")


def test_released_lock_leaves_no_file_even_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        with _lock(tmp_path).hold("tiny"):
            raise KeyError
    assert not list((tmp_path / "locks").iterdir())
    assert _lock(tmp_path).holder("tiny") == ""


COUNT = """
import sys
from pathlib import Path
from lmi_deploy.host.file_lock import file_lock
tally = Path(sys.argv[1]) / "tally"
for _ in range(200):
    with file_lock(Path(sys.argv[1]) / "the.lock", wait=True):
        tally.write_text(str(int(tally.read_text()) + 1))
"""


def test_lock_is_exclusive_although_its_file_is_deleted_on_release(tmp_path: Path) -> None:
    (tmp_path / "tally").write_text("0")
    writers = [subprocess.Popen([sys.executable, "-c", COUNT, str(tmp_path)]) for _ in range(3)]
    assert [writer.wait(30) for writer in writers] == [0, 0, 0]
    assert (tmp_path / "tally").read_text() == "600"
    with file_lock(tmp_path / "the.lock", wait=False) as lock_file:
        assert lock_file.read() == ""
