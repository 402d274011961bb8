"""Which repository, file and commit a recipe is from."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from lmi_deploy.host.recipe_author import recipe_author


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("remote", "repository"),
    [
        ("https://git.example/team/models.git", "git.example/team/models"),
        ("https://user:secret@git.example/team/models", "git.example/team/models"),
        ("git@git.example:team/models.git", "git.example/team/models"),
        ("ssh://git@git.example:2222/team/models.git", "git.example/team/models"),
        ("https://git.example:8443/team/models.git/", "git.example/team/models"),
    ],
)
def test_address_of_a_remote_has_no_credentials(tmp_path: Path, remote: str, repository: str) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "remote", "add", "origin", remote)
    (tmp_path / "r.yaml").touch()
    assert recipe_author(str(tmp_path / "r.yaml")).repository == repository


def test_tracked_file_has_its_path_and_a_changed_tree_a_mark(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "remote", "add", "origin", "git@git.example:a/b.git")
    recipe = tmp_path / "recipes" / "r.yaml"
    recipe.parent.mkdir()
    recipe.write_text("name: a")
    assert (recipe_author(str(recipe)).path, recipe_author(str(recipe)).revision) == ("", "")
    git(tmp_path, "add", "recipes/r.yaml")
    git(tmp_path, "commit", "-qm", "one")
    revision = git(tmp_path, "rev-parse", "--short=12", "HEAD")
    found = recipe_author(str(recipe))
    assert (found.host, found.path, found.revision) == (socket.gethostname(), "recipes/r.yaml", revision)
    recipe.write_text("name: b")
    assert recipe_author(str(recipe)).revision == f"{revision}+"


@pytest.mark.parametrize("name", ["", "no.yaml", "plain/r.yaml"])
def test_file_without_a_repository_has_the_machine_alone(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain/r.yaml").touch()
    found = recipe_author(str(tmp_path / name) if name else "")
    assert found == type(found)(host=socket.gethostname())


def test_without_git_nothing_is_known_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    (tmp_path / "r.yaml").touch()
    assert recipe_author(str(tmp_path / "r.yaml")).repository == ""
