"""Safe model folders: those that no other user of the machine can change."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from lmi_deploy.server.models.folder_permissions import group_members, unsafe_reason

ME = os.getuid()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "above" / "model"
    (folder / "code").mkdir(parents=True)
    (folder / "model.py").touch()
    (folder / "code" / "more.py").touch()
    for path in (folder.parent, folder, folder / "code"):
        path.chmod(0o755)
    return folder


def test_own_folder_under_tmp_is_safe(folder: Path) -> None:
    assert unsafe_reason(folder, uid=ME) == ""


@pytest.mark.parametrize("name", ["..", ".", "model.py", "code", "code/more.py"])
def test_path_writable_by_everyone_is_unsafe(folder: Path, name: str) -> None:
    path = (folder / name).resolve()
    path.chmod(0o777)
    assert unsafe_reason(folder, uid=ME) == f"{path} can be written by every user (mode 777)"


def test_sticky_parent_is_safe_and_sticky_folder_is_not(folder: Path) -> None:
    folder.parent.chmod(0o1777)
    assert unsafe_reason(folder, uid=ME) == ""
    folder.chmod(0o1777)
    assert "can be written by every user" in unsafe_reason(folder, uid=ME)


def test_group_without_other_members_may_write(folder: Path) -> None:
    folder.chmod(0o775)
    assert unsafe_reason(folder, uid=ME, members=lambda gid: frozenset({ME, 0})) == ""
    reason = unsafe_reason(folder, uid=ME, members=lambda gid: frozenset({ME, ME + 1}))
    assert reason.startswith(f"{folder} can be written by its group (mode 775")


def test_members_of_the_own_group_are_known() -> None:
    assert ME in group_members(pwd.getpwuid(ME).pw_gid)
    assert group_members(4_000_000_000) == frozenset()


def test_folder_of_another_user_is_unsafe(folder: Path) -> None:
    if ME == 0:  # all users trust files of root
        os.chown(folder, 65534, -1)
    assert unsafe_reason(folder, uid=ME + 1).startswith(f"{folder} belongs to user ")


def test_link_is_judged_by_its_target(folder: Path, tmp_path: Path) -> None:
    other_location = tmp_path / "elsewhere"
    other_location.mkdir()
    (other_location / "weights.bin").touch()
    (folder / "weights.bin").symlink_to(other_location / "weights.bin")
    (folder / "gone").symlink_to(other_location / "gone")
    assert unsafe_reason(folder, uid=ME) == ""
    other_location.chmod(0o777)
    assert f"{other_location.resolve()} can be written" in unsafe_reason(folder, uid=ME)
