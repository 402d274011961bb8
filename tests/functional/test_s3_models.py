"""`model_id: s3://…`: planned, deployed and pushed, on a bucket in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lmi_deploy.sources.s3_prefix import S3Models
from lmi_deploy.weights.manifests import read_manifest
from lmi_deploy.workflows.dependencies import Deps
from tests.support.fakes import model_files
from tests.support.local_app import RECIPE, House


class HouseWithBucket(House):
    """Its models are in its bucket; every command opens them anew, as a new process would."""

    def deps(self) -> Deps:
        models = S3Models(
            lambda bucket: self.store, read_manifest, cache=self.root / "cache", clock=self.clock
        )
        return replace(super().deps(), hub=lambda model_id: models)


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HouseWithBucket]:
    monkeypatch.chdir(tmp_path)
    house = HouseWithBucket(tmp_path)
    house.store.objects |= {f"models/tiny/{path}": content for path, content in model_files().items()}
    Path("tiny.yaml").write_text(RECIPE.replace("org/tiny", "s3://fake/models/tiny"))
    yield house
    house.servers.close()


def test_a_prefix_is_planned_deployed_and_then_there(house: HouseWithBucket) -> None:
    planned = house.lmi("plan", "--json")
    assert planned.code == 0, planned.err
    assert house.lmi("up", "--yes").code == 0
    fetched = house.root / "cache" / "models" / "fake--tiny"
    assert {path.name for path in fetched.rglob("*") if path.is_file()} == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    }
    assert house.lmi("plan", "--exit-code").code == 0


def test_a_prefix_is_pushed_under_its_bucket_and_last_folder(house: HouseWithBucket) -> None:
    sent = house.store.sent
    first = house.lmi("weights", "push")
    assert house.store.sent - sent < 3000, "S3 copied the files: only the manifest was sent"
    assert house.store.calls.count("copy") == 3
    assert first.code == 0, first.err
    assert first.out.startswith("s3://fake/weights/fake--tiny/")


def test_weights_of_ours_are_deployed_from_where_they_are_and_pushed_nowhere(house: HouseWithBucket) -> None:
    address = house.lmi("weights", "push").out.strip()
    before = dict(house.store.objects)
    again = house.lmi("weights", "push", "--set", f"model_id={address}")
    assert (again.code, again.out.strip()) == (0, address)
    assert house.store.objects == before
    assert house.lmi("plan", "--set", f"model_id={address}").code == 0


def test_an_empty_prefix_is_told(house: HouseWithBucket) -> None:
    told = house.lmi("plan", "--set", "model_id=s3://fake/models/tniy")
    assert (told.code, told.out) == (1, "")
    assert "s3://fake/models/tniy/: there is nothing under this prefix\n  next: aws s3 ls" in told.err
