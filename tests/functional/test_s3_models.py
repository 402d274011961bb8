"""`model_id: s3://…`: planned, deployed and pushed, on a bucket in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lmi_deploy.sources.s3_prefix import S3Models
from lmi_deploy.weights.manifests import read_manifest
from lmi_deploy.workflows.dependencies import Dependencies
from tests.support.fakes import model_files
from tests.support.local_app import RECIPE, LocalApp


class AppWithBucket(LocalApp):
    """Its models are in its bucket; every command opens them again, as a new process would."""

    def deps(self) -> Dependencies:
        models = S3Models(
            lambda bucket: self.store, read_manifest, cache=self.root / "cache", clock=self.clock
        )
        return replace(super().deps(), hub=lambda model_id: models)


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AppWithBucket]:
    monkeypatch.chdir(tmp_path)
    app = AppWithBucket(tmp_path)
    app.store.objects |= {f"models/tiny/{path}": content for path, content in model_files().items()}
    Path("tiny.yaml").write_text(RECIPE.replace("org/tiny", "s3://fake/models/tiny"))
    yield app
    app.servers.close()


def test_s3_model_is_planned_deployed_and_in_step(app: AppWithBucket) -> None:
    planned = app.lmi("plan", "--json")
    assert planned.code == 0, planned.err
    assert app.lmi("up", "--yes").code == 0
    fetched = app.root / "cache" / "models" / "fake--tiny"
    assert {path.name for path in fetched.rglob("*") if path.is_file()} == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    }
    assert app.lmi("plan", "--exit-code").code == 0


def test_pushed_s3_model_is_named_by_bucket_and_last_folder(app: AppWithBucket) -> None:
    sent = app.store.sent
    first = app.lmi("weights", "push")
    assert app.store.sent - sent < 3000, "S3 copied the files: only the manifest was sent"
    assert app.store.calls.count("copy") == 3
    assert first.code == 0, first.err
    assert first.out.startswith("s3://fake/weights/fake--tiny/")


def test_weights_uploaded_by_lmi_are_not_pushed_again(app: AppWithBucket) -> None:
    address = app.lmi("weights", "push").out.strip()
    before = dict(app.store.objects)
    again = app.lmi("weights", "push", "--set", f"model_id={address}")
    assert (again.code, again.out.strip()) == (0, address)
    assert app.store.objects == before
    assert app.lmi("plan", "--set", f"model_id={address}").code == 0


def test_empty_prefix_is_an_error(app: AppWithBucket) -> None:
    result = app.lmi("plan", "--set", "model_id=s3://fake/models/tniy")
    assert (result.code, result.out) == (1, "")
    assert "s3://fake/models/tniy/: no objects under this prefix\n  next: aws s3 ls" in result.err
