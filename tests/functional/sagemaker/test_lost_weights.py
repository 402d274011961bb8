"""Weights that somebody took away: seen by `status` and `plan`, and brought back before anything starts."""

from __future__ import annotations

import pytest

from lmi_deploy.domain.weights import manifest_key, weights_prefix
from tests.support.cloud_app import CloudHouse
from tests.support.fakes import model_files

FILE = "model.safetensors"


def _key(house: CloudHouse) -> str:
    (manifest,) = house.depot().weights.all()
    return f"{weights_prefix(manifest.name)}{FILE}"


def _begun(house: CloudHouse, *argv: str) -> list[str]:
    """The actions of an `up`."""
    ran = house.lmi("up", "--yes", "--json", *argv)
    assert ran.code == 0, ran.err
    return [line["key"].partition(":")[0] for line in ran.lines if line["event"] == "finished"]


@pytest.mark.parametrize("damage", ["deleted", "cut off", "replaced"])
def test_deleted_weights_are_drift_and_are_brought_back_before_an_instance_starts(
    house: CloudHouse, damage: str
) -> None:
    house.up()
    store, key = house.depot().store, _key(house)
    content = b"".join(store.read(key))
    match damage:
        case "deleted":
            store.delete([key])
        case "cut off":
            store.put(key, content[:-1])
        case "replaced":
            store.put(key, content[:-1] + bytes([content[-1] ^ 1]))
    said = {"deleted": "is not there", "cut off": "bytes, the manifest says", "replaced": "was replaced"}[
        damage
    ]
    status = house.lmi("status", "tiny", "--json")
    assert (status.code, status.result["standing"]) == (4, "drifted")
    assert f"{FILE} " in status.result["why"]
    assert said in status.result["why"]
    plan = house.lmi("plan", "--exit-code")
    assert plan.code == 4
    assert said in plan.out
    planned = house.lmi("plan", "--json").result["actions"]
    assert [action["key"].partition(":")[0] for action in planned] == ["PushWeights"]
    assert _begun(house) == ["PushWeights"]
    assert b"".join(store.read(key)) == content
    assert house.lmi("status", "tiny").code == 0
    assert house.lmi("plan", "--exit-code").code == 0


def test_only_what_was_lost_is_sent_again(house: CloudHouse) -> None:
    house.up()
    store, key = house.depot().store, _key(house)
    store.delete([key])
    figures = {
        key.replace("_", " "): value for key, value in house.lmi("plan", "--json").result["figures"].items()
    }
    assert figures["to move"] == str(len(model_files()[FILE]))


def test_a_lost_manifest_is_drift(house: CloudHouse) -> None:
    house.up()
    (manifest,) = house.depot().weights.all()
    house.depot().store.delete([manifest_key(manifest.name)])
    status = house.lmi("status", "tiny", "--json")
    assert (status.code, "the manifest of" in status.result["why"]) == (4, True)
    assert _begun(house)[0] == "PushWeights"
    assert house.lmi("status", "tiny").code == 0


def test_a_file_too_many_is_refused_before_an_instance_starts(house: CloudHouse) -> None:
    house.up()
    store, key = house.depot().store, _key(house)
    store.put(f"{key}.bak", b"x")
    house.cloud.world.calls.clear()
    ran = house.lmi("up", "--yes", "--set", "options.dtype=fp32")
    assert ran.code == 5
    assert "not of this model" in ran.err
    assert not {"create_model", "update_endpoint"} & {*house.cloud.world.calls}


def test_weights_that_were_carried_into_the_artifact_are_looked_for_there(house: CloudHouse) -> None:
    packed = ("--set", "weights.deliver=artifact")
    house.up(*packed)
    store = house.depot().store
    (key,) = [stored.key for stored in store.list("artifacts/tiny/") if stored.key.endswith(FILE)]
    content = b"".join(store.read(key))
    store.delete([key])
    assert _begun(house, *packed) == ["PutArtifact"]
    assert b"".join(store.read(key)) == content
    assert house.lmi("plan", "--exit-code", *packed).code == 0
