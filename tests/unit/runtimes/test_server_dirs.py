"""The private folder of a server's sockets: ours alone, or refused."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from lmi_deploy.errors import DeployFailed
from lmi_deploy.runtimes.server_dirs import fresh_run_folder, is_private, run_folder


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


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
