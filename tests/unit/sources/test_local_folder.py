"""A folder as a model: which links count as its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmi_deploy.errors import Refused
from lmi_deploy.sources.local_folder import LocalModel


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "models--org--m" / "snapshots" / "abc"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (tmp_path / "secret.txt").write_text("secret")
    return folder


@pytest.mark.parametrize("target", ["../../../secret.txt", "/etc/hostname", "../../refs/main"])
def test_link_out_of_the_folder_is_refused_with_its_target(model: Path, target: str) -> None:
    (model.parents[1] / "refs").mkdir()
    (model.parents[1] / "refs" / "main").write_text("abc")
    (model / "tokenizer.json").symlink_to(target)
    local = LocalModel()
    for read in (lambda name: local.listing(name, "main"), local.list_sizes):
        with pytest.raises(Refused) as refused:
            read(str(model))
        assert str((model / target).resolve()) in refused.value.message
        assert "copy the file into the folder" in refused.value.hint


def test_links_inside_the_folder_and_of_the_hubs_cache_are_files(model: Path, tmp_path: Path) -> None:
    (model / "alias.json").symlink_to("config.json")
    blobs = model.parents[1] / "blobs"
    blobs.mkdir()
    (blobs / "1f").write_text("weights")
    (model / "model.bin").symlink_to("../../blobs/1f")
    (tmp_path / "short").symlink_to(model)
    for folder in (model, tmp_path / "short"):
        files = LocalModel().listing(str(folder), "main").files
        assert [file.path for file in files] == ["alias.json", "config.json", "model.bin"]
