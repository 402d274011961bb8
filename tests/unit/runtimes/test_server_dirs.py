"""The private folder of a server's sockets: ours alone, or refused."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from lmi_deploy.errors import DeployFailed
from lmi_deploy.runtimes.server_dirs import fresh_run_folder, is_private, run_folder
from lmi_deploy.server.workers.worker import LONGEST_SOCKET_PATH


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Short, unlike tmp_path: a long TMPDIR is not used."""
    with TemporaryDirectory() as folder:
        monkeypatch.setattr("tempfile.tempdir", folder)
        yield Path(folder)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_folders_are_private_whatever_the_umask(temporary: Path) -> None:
    before = os.umask(0)
    try:
        run = fresh_run_folder(temporary / "home")
    finally:
        os.umask(before)
    assert (run, mode(run), mode(run.parent)) == (run_folder(temporary / "home"), 0o700, 0o700)
    assert is_private(run.parent)


def test_own_folder_open_to_others_is_made_private(temporary: Path) -> None:
    parent = run_folder(temporary / "home").parent
    parent.mkdir()
    parent.chmod(0o777)
    assert not is_private(parent)
    fresh_run_folder(temporary / "home")
    assert mode(parent) == 0o700


def test_too_long_tmpdir_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for length, used in ((40, True), (90, False)):
        temporary = "/var/" + "x" * (length - len("/var/"))
        monkeypatch.setattr("tempfile.tempdir", temporary)
        run = run_folder(tmp_path)
        assert run.is_relative_to(temporary) == used
        assert len(str(run / "djl_sock.19000.99")) <= LONGEST_SOCKET_PATH
        assert run == run_folder(tmp_path)


def test_symlink_instead_of_the_folder_is_refused(temporary: Path) -> None:
    (temporary / "mine").mkdir(mode=0o700)
    parent = run_folder(temporary / "home").parent
    parent.symlink_to(temporary / "mine")
    assert not is_private(parent)
    with pytest.raises(DeployFailed, match="is a link"):
        fresh_run_folder(temporary / "home")
    assert list((temporary / "mine").iterdir()) == []


def test_file_instead_of_the_folder_is_refused(temporary: Path) -> None:
    parent = run_folder(temporary / "home").parent
    parent.touch()
    with pytest.raises(DeployFailed, match="is not a folder"):
        fresh_run_folder(temporary / "home")


def test_folder_of_another_user_is_refused(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    me = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: me + 1)
    run_folder(temporary / "home").parent.mkdir(mode=0o700)
    with pytest.raises(DeployFailed, match="belongs to another user") as caught:
        fresh_run_folder(temporary / "home")
    assert "TMPDIR" in caught.value.hint
