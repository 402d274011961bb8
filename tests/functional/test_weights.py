"""`lmi weights` and `lmi gc`, in process, on a bucket in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lmi_deploy.domain.record import SCHEMA, DeploymentRef, Intent, Record
from lmi_deploy.domain.record_json import record_text
from lmi_deploy.domain.weights import BucketRequest
from lmi_deploy.errors import NotFound
from lmi_deploy.ports.weights import WeightsStore
from lmi_deploy.workflows.dependencies import Dependencies
from tests.support.factories import SAGEMAKER, generation, serving
from tests.support.local_app import RECIPE, LocalApp
from tests.support.old_records import schema_1_text


@pytest.fixture
def app(tmp_path: Path) -> LocalApp:
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    return LocalApp(tmp_path)


def recipe(app: LocalApp) -> str:
    return str(app.root / "recipe.yaml")


def test_push_prints_the_address_and_a_second_push_uploads_nothing(app: LocalApp) -> None:
    first = app.lmi("weights", "push", recipe(app))
    assert first.code == 0, first.err
    assert first.out.startswith("s3://fake/weights/org--tiny/")
    sent = app.store.sent
    assert sent > 0
    again = app.lmi("weights", "push", recipe(app), "--json")
    assert again.result["address"] == first.out.strip()
    assert app.store.sent == sent, "no byte was moved"


def test_lifecycle_rule_is_proposed_only_after_an_upload(app: LocalApp) -> None:
    app.advice = "a lifecycle rule would do"
    assert app.advice in app.lmi("weights", "push", recipe(app)).err
    again = app.lmi("weights", "push", recipe(app))
    assert app.advice not in again.err
    assert "3 files, all already in the bucket" in again.err
    result = app.lmi("weights", "push", recipe(app), "--json", "--set", "files.ignore=[tokenizer.json]")
    assert any(app.advice in str(line.get("text")) for line in result.lines), "another selection, copied"


def test_recipe_without_instance_type_can_be_pushed(app: LocalApp) -> None:
    (app.root / "cloud.yaml").write_text(
        "name: tiny\nmodel_id: org/tiny\nendpoint: {bucket: fake, region: us-east-1}\n"
    )
    assert app.lmi("validate", str(app.root / "cloud.yaml")).code == 2
    assert app.lmi("weights", "push", str(app.root / "cloud.yaml")).code == 0


def test_weights_are_listed_verified_and_removed(app: LocalApp) -> None:
    name = app.lmi("weights", "push", recipe(app), "--json").result["name"]
    listed = app.lmi("weights", "ls", "--json")
    assert [line["name"] for line in listed.lines[:-1] if line["event"] == "row"] == [name]
    assert app.lmi("weights", "verify", "org--tiny", "--json").result["intact"] is True
    assert app.lmi("weights", "verify", "org--tiny", "--deep").code == 0
    assert app.lmi("weights", "rm", "org--tiny").code == 2, "no terminal, no --yes"
    requests = app.lmi("weights", "rm", "org--tiny", stdin=b"\n", terminal=True)
    assert (requests.code, "? [y/N] " in requests.err) == (130, True), "Enter alone is no consent"
    assert app.store.objects
    assert app.lmi("weights", "rm", "--yes", "org--tiny", "--json").result["bytes"] > 0
    assert app.store.objects == {}
    missing = app.lmi("weights", "verify", "org--tiny")
    assert missing.code == 1
    assert "lmi weights ls" in missing.err


def test_weights_are_found_by_model_id_and_a_typo_gets_a_suggestion(app: LocalApp) -> None:
    address = app.lmi("weights", "push", recipe(app)).out.strip()
    assert app.lmi("weights", "verify", "org/tiny").code == 0
    assert app.lmi("weights", "verify", address).code == 0
    slipped = app.lmi("weights", "verify", "org--tinny")
    assert (slipped.code, "did you mean org--tiny?" in slipped.err) == (1, True), slipped.err
    assert "1 model in s3://fake" in app.lmi("weights", "ls").err


def test_copy_into_the_same_bucket_is_refused(app: LocalApp) -> None:
    app.lmi("weights", "push", recipe(app))
    result = app.lmi("weights", "copy", "org/tiny", "--to-bucket", "fake")
    assert (result.code, "source and target are the same bucket" in result.err) == (2, True)


def test_changed_object_is_an_integrity_error(app: LocalApp) -> None:
    app.lmi("weights", "push", recipe(app))
    key = next(key for key in app.store.objects if key.endswith(".safetensors"))
    app.store.objects[key] = b"x" + app.store.objects[key][1:]
    result = app.lmi("weights", "verify", "org--tiny", "--deep")
    assert result.code == 6
    assert "model.safetensors: sha256" in result.err


PROD = Record(ref=DeploymentRef(name="prod", target="sagemaker"))


def served(name: str) -> Record:
    return replace(
        PROD, generations=(replace(generation("g"), serving=serving(SAGEMAKER, weights_name=name)),)
    )


def unfinished(name: str) -> Record:
    return replace(PROD, intents=(Intent(action="PushWeights", names={"weights": name}, outcome=None),))


@pytest.mark.parametrize("record", [served, unfinished])
@pytest.mark.parametrize("text", [record_text, schema_1_text])
def test_weights_of_a_deployment_are_not_removed(
    app: LocalApp, record: Callable[[str], Record], text: Callable[[Record], str]
) -> None:
    name = app.lmi("weights", "push", recipe(app), "--json").result["name"]
    app.store.put("deployments/prod/record.json", text(record(name)).encode())
    result = app.lmi("weights", "rm", "--yes", name)
    assert result.code == 5
    assert "the deployment prod uses" in result.err
    rows = [line for line in app.lmi("weights", "ls", "--json").lines if line["event"] == "row"]
    assert rows[0]["used_by"] == "prod"


def test_unreadable_record_protects_all_weights(app: LocalApp) -> None:
    name = app.lmi("weights", "push", recipe(app), "--json").result["name"]
    newer = record_text(PROD).replace(f'"schema": {SCHEMA}', f'"schema": {SCHEMA + 1}')
    for text, why in (("{", "not a record"), (newer, "written by a newer lmi")):
        app.store.put("deployments/prod/record.json", text.encode())
        result = app.lmi("weights", "rm", "--yes", name)
        assert (result.code != 0, why in result.err) == (True, True)


@pytest.mark.parametrize(
    "text", [b"{", b"[" * 100_000, b'{"schema": 99}', b'{"schema": 1, "files": [], "name": []}']
)
def test_bad_manifest_is_named_and_hides_no_other(app: LocalApp, text: bytes) -> None:
    name = app.lmi("weights", "push", recipe(app), "--json").result["name"]
    app.store.put("manifests/bad/one.json", text)
    listed = app.lmi("weights", "ls", "--json")
    assert [line["name"] for line in listed.lines if line["event"] == "row"] == [name]
    assert listed.code == 6
    assert "1 manifest in s3://" in listed.result["error"]["message"]
    assert "bad/one" in listed.result["error"]["message"]
    assert app.lmi("weights", "verify", name).code == 0
    assert app.lmi("weights", "verify", "bad/one").code in (5, 6)


def test_gc_of_a_clean_bucket_reports_no_leftovers(app: LocalApp) -> None:
    app.lmi("weights", "push", recipe(app))
    result = app.lmi("gc")
    assert result.code == 0
    assert "no leftovers older than 24 h" in result.err


class NoBucket(LocalApp):
    """An app before its first `up`: there is no bucket."""

    def deps(self) -> Dependencies:
        def weights(bucket_request: BucketRequest, memory_mb: int | None) -> WeightsStore:
            raise NotFound("s3://lmi-1-an: the account's default bucket does not exist yet")

        return replace(super().deps(), weights=weights)


def test_gc_without_a_bucket_succeeds(tmp_path: Path) -> None:
    app = NoBucket(tmp_path)
    result = app.lmi("gc", "--json")
    assert (result.code, result.result["freed"]) == (0, 0)
    assert app.lmi("gc", "--bucket", "mine").code == 1


def test_s5cmd_needs_weights_on_this_machine(app: LocalApp) -> None:
    result = app.lmi("weights", "push", recipe(app), "--set", "weights.engine=s5cmd")
    assert (result.code, result.out) == (2, "")
    assert "weights.engine: s5cmd sends files from the disk" in result.err
    assert "weights.via: snapshot" in result.err
    assert app.store.objects == {}


def test_push_reports_the_upload_engine(app: LocalApp) -> None:
    assert "uploader: lmi\n" in app.lmi("weights", "push", recipe(app)).err
