"""The folder of container.build: what its digest covers, and the copy that is built."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lmi_deploy.domain.image_build import BuildContext, ImageBuild
from lmi_deploy.errors import DeployFailed, Unresolvable
from lmi_deploy.runtimes.container.build_context import copy_context, read_context


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "image"
    (root / "src" / "empty").mkdir(parents=True)
    (root / "Dockerfile").write_text("FROM scratch\nCOPY src /src\n")
    (root / "src" / "serve.sh").write_text("#!/bin/sh\n")
    (root / "src" / "link").symlink_to("serve.sh")
    return root


def read(folder: Path) -> BuildContext:
    return read_context(folder, "Dockerfile")


def test_same_content_has_the_same_digest_in_another_folder_and_at_another_time(
    folder: Path, tmp_path: Path
) -> None:
    first = read(folder)
    os.utime(folder / "Dockerfile", (0, 0))
    moved = folder.rename(tmp_path / "moved")
    assert read(moved).digest == first.digest
    assert (first.files, first.size) == (3, len("FROM scratch\nCOPY src /src\n") + len("#!/bin/sh\n"))


@pytest.mark.parametrize("change", ["content", "mode", "link", "name", "folder", "removed"])
def test_every_change_that_a_build_sees_changes_the_digest(folder: Path, change: str) -> None:
    first, program = read(folder).digest, folder / "src" / "serve.sh"
    match change:
        case "content":
            program.write_text("#!/bin/bash\n")
        case "mode":
            program.chmod(0o755)
        case "link":
            (folder / "src" / "link").unlink()
            (folder / "src" / "link").symlink_to("elsewhere")
        case "name":
            program.rename(folder / "src" / "serve")
        case "folder":
            (folder / "src" / "more").mkdir()
        case "removed":
            (folder / "src" / "empty").rmdir()
    assert read(folder).digest != first


def test_ignored_files_are_neither_in_the_digest_nor_in_the_copy(folder: Path, tmp_path: Path) -> None:
    (folder / ".dockerignore").write_text("weights\n!weights/keep.txt\nDockerfile\n")
    first = read(folder).digest
    (folder / "weights").mkdir()
    (folder / "weights" / "model.bin").write_bytes(b"much")
    assert read(folder).digest == first
    (folder / "weights" / "keep.txt").write_text("kept")
    assert read(folder).digest != first
    copy = tmp_path / "copy"
    copy.mkdir()
    copy_context(read(folder), "Dockerfile", copy)
    copied = {str(path.relative_to(copy)) for path in copy.rglob("*")}
    assert copied == {
        "Dockerfile",
        "src",
        "src/empty",
        "src/link",
        "src/serve.sh",
        "weights",
        "weights/keep.txt",
    }


def test_rules_of_one_dockerfile_come_first(folder: Path) -> None:
    (folder / ".dockerignore").write_text("src\n")
    (folder / "Dockerfile.dockerignore").write_text("nothing\n")
    assert read(folder).files == 3


def test_folder_that_changes_after_the_plan_is_not_built(folder: Path, tmp_path: Path) -> None:
    planned = read(folder)
    (folder / "src" / "serve.sh").write_text("changed")
    (tmp_path / "copy").mkdir()
    with pytest.raises(DeployFailed, match="changed after the plan"):
        copy_context(planned, "Dockerfile", tmp_path / "copy")


def test_missing_dockerfile_and_files_that_no_image_contains_are_named(folder: Path) -> None:
    with pytest.raises(Unresolvable, match=r"Dockerfile\.gpu: no such file"):
        read_context(folder, "Dockerfile.gpu")
    os.mkfifo(folder / "pipe")
    with pytest.raises(Unresolvable, match="pipe: neither a file nor a folder nor a link"):
        read(folder)
    (folder / ".dockerignore").write_text("pipe\n")
    assert read(folder).files == 3
    (folder / ".dockerignore").write_text("[z-a]\n")
    with pytest.raises(Unresolvable, match=r"\.dockerignore: line 1"):
        read(folder)


def test_tag_covers_folder_dockerfile_arguments_and_platform(folder: Path) -> None:
    context = read(folder)

    def tag(dockerfile: str = "Dockerfile", platform: str = "linux/amd64", **arguments: str) -> str:
        pairs = tuple(arguments.items())
        return ImageBuild(context=context, dockerfile=dockerfile, arguments=pairs, platform=platform).tag

    tags = [tag(), tag("Other"), tag(platform="linux/arm64"), tag(A="1"), tag(A="2"), tag(A="1", B="2")]
    assert len(set(tags)) == len(tags)
    assert tag(B="2", A="1") == tag(A="1", B="2")
