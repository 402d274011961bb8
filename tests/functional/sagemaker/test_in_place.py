"""`weights.in_place`: a model in a bucket of the user's own is served from there, and lmi never changes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from lmi_deploy.sources.s3_prefix import S3Models
from lmi_deploy.weights.manifests import read_manifest
from lmi_deploy.workflows.dependencies import Dependencies
from tests.support.cloud_app import RECIPE, CloudApp, write_recipe
from tests.support.fake_store import FakeStore
from tests.support.fakes import model_files

MODELS = "team-models"
PREFIX = "llm/small/"
ADDRESS = f"s3://{MODELS}/{PREFIX}"
IN_PLACE = RECIPE.replace("org/tiny", ADDRESS) + "weights: {in_place: true}\n"
KEY = "arn:aws:kms:us-east-1:111122223333:key/1234abcd"


@dataclass
class AppWithModels(CloudApp):
    """Its models are in `team-models`, a bucket of the account that lmi did not create."""

    def deps(self) -> Dependencies:
        models = S3Models(self.cloud.store_of, read_manifest, cache=self.root / "cache", clock=self.clock)
        return replace(super().deps(), hub=lambda model_id: models)

    @property
    def models(self) -> FakeStore:
        return self.cloud.stores[MODELS]

    def own_keys(self) -> list[str]:
        """Of the deployment's own bucket."""
        return [one.key for one in self.cloud.stores[self.bucket].list("")]

    def serving_artifact(self) -> str:
        endpoint = self.observe().endpoint
        assert endpoint is not None
        return endpoint.config


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AppWithModels]:
    monkeypatch.chdir(tmp_path)
    write_recipe(IN_PLACE)
    app = AppWithModels(tmp_path)
    app.cloud.account.buckets[MODELS] = "111122223333/us-east-1"
    app.cloud.opened(MODELS)
    app.models.objects |= {PREFIX + path: content for path, content in model_files().items()}
    yield app
    app.servers.close()


def test_model_is_served_from_its_own_bucket_and_never_changed(app: AppWithModels) -> None:
    before = dict(app.models.objects)
    planned = app.lmi("plan", "--json")
    assert planned.code == 0, planned.err
    kinds = [action["key"].partition(":")[0] for action in planned.result["actions"]]
    assert "PushWeights" not in kinds
    app.up()
    assert not [key for key in app.own_keys() if key.startswith(("weights/", "manifests/"))], (
        "nothing is copied"
    )
    assert app.lmi("plan", "--exit-code").code == 0
    assert app.lmi("status", "tiny").code == 0
    properties = next(
        content
        for key, content in app.cloud.stores[app.bucket].objects.items()
        if "serving.properties" in key
    )
    assert f"option.model_id={ADDRESS}".encode() in properties.replace(b"\\", b"")
    assert app.lmi("down", "tiny", "--yes", "--purge").code == 0
    assert app.cloud_resources() == []
    assert app.models.objects == before
    assert {"put", "delete", "copy", "remove", "create_multipart"}.isdisjoint(app.models.calls)


def test_verified_versions_are_recorded_and_looked_up_once(app: AppWithModels) -> None:
    app.models.versioned = True
    app.up()
    heads = app.models.calls.count("head")
    assert heads == len(model_files())
    current = app.record().current
    assert current is not None
    weights = current.serving.in_place
    assert weights is not None
    assert [file.path for file in weights.files] == sorted(model_files())
    assert all(file.version and file.etag for file in weights.files)
    assert (current.serving.weights_name, app.record().weights) == ("", ())
    app.up()
    assert app.models.calls.count("head") == heads, "an object of the same version is verified once"


def test_changed_object_is_drift_and_up_deploys_it(app: AppWithModels) -> None:
    app.models.versioned = True
    app.up()
    served = app.serving_artifact()
    app.models.put(f"{PREFIX}tokenizer.json", b'{"changed": true}')
    status = app.lmi("status", "tiny", "--json")
    assert (status.code, status.result["standing"]) == (4, "drifted")
    assert "tokenizer.json was replaced (its verified version is " in status.result["why"]
    plan = app.lmi("plan", "--exit-code")
    assert plan.code == 4
    assert "object tokenizer.json: " in plan.out
    app.up()
    assert app.serving_artifact() != served, "the endpoint is updated: its instances load the changed object"
    assert app.lmi("status", "tiny").code == 0


@pytest.mark.parametrize("change", ["deleted", "added"])
def test_deleted_and_added_objects_are_drift(app: AppWithModels, change: str) -> None:
    app.up()
    if change == "deleted":
        app.models.delete([f"{PREFIX}tokenizer.json"])
    else:
        app.models.put(f"{PREFIX}merges.txt", b"a b")
    status = app.lmi("status", "tiny", "--json")
    assert status.code == 4
    assert f" was {change}" in status.result["why"]


def test_rollback_to_objects_that_were_replaced_is_refused(app: AppWithModels) -> None:
    app.up()
    app.models.put(f"{PREFIX}tokenizer.json", b'{"changed": true}')
    app.up()
    result = app.lmi("rollback", "tiny", "--yes")
    assert result.code == 1
    assert "its weights in place changed since" in result.err + app.lmi("status", "tiny").out


def test_bucket_that_may_not_be_read_is_reported_by_status(app: AppWithModels) -> None:
    app.up()
    app.cloud.account.buckets[MODELS] = "999999999999/us-east-1"
    status = app.lmi("status", "tiny", "--json")
    assert (status.code, status.result["standing"]) == (0, "in-step")
    assert "not checked: s3://team-models: it does not belong to account" in status.result["why"]


@pytest.mark.parametrize("owner", ["111122223333/eu-west-1", "999999999999/us-east-1"])
def test_bucket_of_another_region_or_account_is_refused_with_the_remedy(
    app: AppWithModels, owner: str
) -> None:
    app.cloud.account.buckets[MODELS] = owner
    result = app.lmi("up", "--yes")
    assert (result.code, result.out) == (1, "")
    assert "its account (111122223333) and region (us-east-1)" in result.err
    assert "omit weights.in_place and lmi copies the model" in result.err
    assert app.cloud_resources() == []


def test_archived_object_is_refused(app: AppWithModels) -> None:
    app.models.storage_classes[f"{PREFIX}model.safetensors"] = "DEEP_ARCHIVE"
    result = app.lmi("plan")
    assert result.code == 2
    assert "model.safetensors: its storage class is DEEP_ARCHIVE, which an endpoint cannot read" in result.err


def test_broken_safetensors_header_is_refused(app: AppWithModels) -> None:
    app.models.objects[f"{PREFIX}model.safetensors"] = b"\xff" * 64
    result = app.lmi("plan")
    assert result.code == 6
    assert "model.safetensors: " in result.err


def test_policies_contain_the_bucket_and_the_keys_of_the_objects(app: AppWithModels) -> None:
    app.models.kms_key = KEY
    result = app.lmi("iam", "--part", "execution", "--json")
    assert result.code == 0, result.err
    by_sid = {one["Sid"]: one for one in result.result["execution"]["Statement"]}
    assert by_sid["ReadInPlace"]["Resource"] == [f"arn:aws:s3:::{MODELS}/{PREFIX}*"]
    assert f"arn:aws:s3:::{MODELS}" in by_sid["ListModel"]["Resource"]
    assert by_sid["DecryptInPlace"]["Resource"] == [KEY]
    assert by_sid["ReadModel"]["Resource"] == [f"arn:aws:s3:::{app.bucket}/artifacts/tiny/*"]


def test_role_without_the_right_to_read_stops_before_anything_is_created(app: AppWithModels) -> None:
    app.cloud.roles.denied.add("s3:GetObject")
    result = app.lmi("up", "--yes")
    assert result.code == 1
    assert f"may not s3:GetObject on arn:aws:s3:::{MODELS}/{PREFIX}*" in result.err
    assert app.cloud_resources() == []


def test_large_objects_that_are_not_needed_are_a_notice(app: AppWithModels) -> None:
    app.models.objects[f"{PREFIX}model.onnx"] = bytes(100_000_001)
    result = app.lmi("plan")
    assert result.code == 0, result.err
    assert "3 objects under s3://team-models/llm/small/ (100 MB) are not needed to serve" in result.err


def test_objects_of_lmi_are_refused(app: AppWithModels) -> None:
    app.cloud.account.buckets[app.bucket] = "111122223333/us-east-1"
    app.cloud.opened(app.bucket)
    app.cloud.stores[app.bucket].objects |= {
        f"artifacts/other/{path}": content for path, content in model_files().items()
    }
    result = app.lmi("plan", "--set", f"model_id=s3://{app.bucket}/artifacts/other")
    assert result.code == 2
    assert "lmi keeps its own objects under" in result.err


def test_push_has_nothing_to_do(app: AppWithModels) -> None:
    app.up()
    result = app.lmi("weights", "push")
    assert result.code == 2
    assert "there is nothing to push" in result.err


def test_weights_that_lmi_pushed_elsewhere_cannot_be_removed_while_they_serve(app: AppWithModels) -> None:
    """Of another bucket: its records name no deployment that uses them."""
    pushed = "weights/org--tiny/" + "a" * 40 + "-12345678/"
    app.cloud.store_of(MODELS)
    app.models.objects |= {f"{pushed}{path}": content for path, content in model_files().items()}
    app.up()
    bucket_services = app.cloud.depot(app.cloud.cloud(), MODELS)
    assert bucket_services is not None
    assert bucket_services.weights.references() == {}
    endpoint = app.observe().endpoint
    assert endpoint is not None
    tags = dict(app.cloud.account_state.tags[endpoint.arn])
    tags["lmi:weights-in-place"] = f"s3://{MODELS}/{pushed}"
    app.cloud.account_state.tags[endpoint.arn] = tuple(tags.items())
    assert bucket_services.weights.references() == {pushed.removeprefix("weights/").rstrip("/"): ("tiny",)}


def test_export_names_the_prefix_and_uploads_no_weights(app: AppWithModels) -> None:
    before = dict(app.models.objects)
    delivery = ("--set", "weights.deliver=mount")
    result = app.lmi(
        "export", "tiny.yaml", "--format", "terraform", "--upload", "--out", "tiny.tf", *delivery
    )
    assert result.code == 0, result.err
    text = Path("tiny.tf").read_text()
    assert f"{ADDRESS}  (the weights of {ADDRESS} in place" in text
    assert f'"{ADDRESS}"' in text, "the model mounts the prefix"
    assert not [key for key in app.own_keys() if key.startswith(("weights/", "manifests/"))]
    assert app.models.objects == before
