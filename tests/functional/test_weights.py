"""`lmi weights` and `lmi gc`, in process, on a bucket in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lmi_deploy.domain.weights import BucketWish
from lmi_deploy.errors import NotFound
from lmi_deploy.ports.weights import Weights
from lmi_deploy.workflows.dependencies import Deps
from tests.support.local_app import RECIPE, House


@pytest.fixture
def house(tmp_path: Path) -> House:
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    return House(tmp_path)


def recipe(house: House) -> str:
    return str(house.root / "recipe.yaml")


def test_a_push_says_where_the_weights_are_and_a_second_one_moves_nothing(house: House) -> None:
    first = house.lmi("weights", "push", recipe(house))
    assert first.code == 0, first.err
    assert first.out.startswith("s3://fake/weights/org--tiny/")
    sent = house.store.sent
    assert sent > 0
    again = house.lmi("weights", "push", recipe(house), "--json")
    assert again.result["address"] == first.out.strip()
    assert house.store.sent == sent, "no byte was moved"


def test_the_rule_that_a_bucket_lacks_is_proposed_where_something_was_brought(house: House) -> None:
    house.advice = "a lifecycle rule would do"
    assert house.advice in house.lmi("weights", "push", recipe(house)).err
    again = house.lmi("weights", "push", recipe(house))
    assert house.advice not in again.err
    assert "3 files, all there already" in again.err
    told = house.lmi("weights", "push", recipe(house), "--json", "--set", "files.ignore=[tokenizer.json]")
    assert any(house.advice in str(line.get("text")) for line in told.lines), "another selection, copied"


def test_a_recipe_for_the_cloud_can_be_pushed_before_it_can_be_deployed(house: House) -> None:
    (house.root / "cloud.yaml").write_text(
        "name: tiny\nmodel_id: org/tiny\nendpoint: {bucket: fake, region: us-east-1}\n"
    )
    assert house.lmi("validate", str(house.root / "cloud.yaml")).code == 2
    assert house.lmi("weights", "push", str(house.root / "cloud.yaml")).code == 0


def test_what_is_there_is_listed_verified_and_removed(house: House) -> None:
    name = house.lmi("weights", "push", recipe(house), "--json").result["name"]
    listed = house.lmi("weights", "ls", "--json")
    assert [line["name"] for line in listed.lines[:-1] if line["event"] == "row"] == [name]
    assert house.lmi("weights", "verify", "org--tiny").code == 0
    assert house.lmi("weights", "verify", "org--tiny", "--deep").code == 0
    assert house.lmi("weights", "rm", "org--tiny").code == 2, "no terminal, no --yes"
    asked = house.lmi("weights", "rm", "org--tiny", stdin=b"\n", terminal=True)
    assert (asked.code, "? [y/N] " in asked.err) == (130, True), "Enter alone is no consent"
    assert house.store.objects
    assert house.lmi("weights", "rm", "--yes", "org--tiny").code == 0
    assert house.store.objects == {}
    gone = house.lmi("weights", "verify", "org--tiny")
    assert gone.code == 1
    assert "lmi weights ls" in gone.err


def test_a_model_is_named_by_its_id_and_a_slip_is_met(house: House) -> None:
    address = house.lmi("weights", "push", recipe(house)).out.strip()
    assert house.lmi("weights", "verify", "org/tiny").code == 0
    assert house.lmi("weights", "verify", address).code == 0
    slipped = house.lmi("weights", "verify", "org--tinny")
    assert (slipped.code, "did you mean org--tiny?" in slipped.err) == (1, True), slipped.err
    assert "1 model in s3://fake" in house.lmi("weights", "ls").err


def test_a_copy_into_the_same_bucket_is_none(house: House) -> None:
    house.lmi("weights", "push", recipe(house))
    told = house.lmi("weights", "copy", "org/tiny", "--to-bucket", "fake")
    assert (told.code, "these weights lie in it already" in told.err) == (2, True)


def test_a_changed_object_is_an_integrity_error(house: House) -> None:
    house.lmi("weights", "push", recipe(house))
    key = next(key for key in house.store.objects if key.endswith(".safetensors"))
    house.store.objects[key] = b"x" + house.store.objects[key][1:]
    told = house.lmi("weights", "verify", "org--tiny", "--deep")
    assert told.code == 6
    assert "model.safetensors: sha256" in told.err


SERVING = '{"schema": 1, "generations": [{"summary": {"weights_name": "NAME"}}]}'
UNFINISHED = '{"schema": 1, "intents": [{"action": "PushWeights", "names": {"weights": "NAME"}}]}'


@pytest.mark.parametrize("record", [SERVING, UNFINISHED])
def test_weights_that_a_deployment_uses_stay(house: House, record: str) -> None:
    name = house.lmi("weights", "push", recipe(house), "--json").result["name"]
    record = record.replace("NAME", name)
    house.store.put("deployments/prod/record.json", record.encode())
    told = house.lmi("weights", "rm", "--yes", name)
    assert told.code == 5
    assert "the deployment prod uses" in told.err
    rows = [line for line in house.lmi("weights", "ls", "--json").lines if line["event"] == "row"]
    assert rows[0]["used_by"] == "prod"


def test_gc_on_a_clean_bucket_says_so(house: House) -> None:
    house.lmi("weights", "push", recipe(house))
    told = house.lmi("gc")
    assert told.code == 0
    assert "nothing older than 24 h" in told.err


class NoBucket(House):
    """The house before its first `up`."""

    def deps(self) -> Deps:
        def weights(wish: BucketWish, memory_mb: int | None) -> Weights:
            raise NotFound("s3://lmi-1-an: the account's default bucket is not there yet")

        return replace(super().deps(), weights=weights)


def test_gc_where_there_is_no_bucket_yet_is_done(tmp_path: Path) -> None:
    house = NoBucket(tmp_path)
    told = house.lmi("gc", "--json")
    assert (told.code, told.result["freed"]) == (0, 0)
    assert house.lmi("gc", "--bucket", "mine").code == 1


def test_s5cmd_needs_the_files_on_this_machine(house: House) -> None:
    told = house.lmi("weights", "push", recipe(house), "--set", "weights.engine=s5cmd")
    assert (told.code, told.out) == (2, "")
    assert "weights.engine: s5cmd sends files of this machine" in told.err
    assert "weights.via: snapshot" in told.err
    assert house.store.objects == {}


def test_the_engine_is_said(house: House) -> None:
    assert "engine: own" in house.lmi("weights", "push", recipe(house)).err
