"""The models loaded at the start, by `load_models` and by the contents of the folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmi_deploy.server.models.model_store import startup_models
from lmi_deploy.server.models.property_values import InvalidSettings


def store(folder: Path, *models: str) -> Path:
    for model in models:
        (folder / model).mkdir(parents=True)
        (folder / model / "model.py").touch()
    return folder


def loaded(folder: Path, load_models: str = "") -> list[tuple[str, str, str | None]]:
    keys = {"load_models": load_models} if load_models else {}
    found = startup_models(folder, "named", keys)
    return [(one.name, one.folder.name, one.overrides.version) for one in found]


def test_folder_with_subfolders_contains_several_models(tmp_path: Path) -> None:
    assert loaded(store(tmp_path, "a", "b")) == [("a", "a", None), ("b", "b", None)]


def test_folder_with_a_model_file_is_one_model(tmp_path: Path) -> None:
    assert loaded(store(tmp_path / "m", "")) == [("named", "m", None)]


def test_folder_with_only_archives_contains_no_model(tmp_path: Path) -> None:
    (tmp_path / "model.tar.gz").touch()
    assert loaded(tmp_path) == []


def test_load_models_none_loads_nothing(tmp_path: Path) -> None:
    assert loaded(store(tmp_path / "m", ""), "NONE") == []


def test_load_models_takes_names_with_urls_or_folders(tmp_path: Path) -> None:
    store(tmp_path, "a", "b")
    assert loaded(tmp_path, f"first=file://{tmp_path}/a, second=b") == [
        ("first", "a", None),
        ("second", "b", None),
    ]


def test_load_models_takes_version_engine_and_devices(tmp_path: Path) -> None:
    store(tmp_path, "a")
    [found] = startup_models(tmp_path, "named", {"load_models": "x:v1:Python:-1=a"})
    assert (found.name, found.overrides.version) == ("x", "v1")
    assert found.overrides.keys == {"engine": "Python", "load_on_devices": "-1"}


def test_load_models_with_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="load_models=x=nothere: no folder nothere in"):
        loaded(store(tmp_path, "a"), "x=nothere")
