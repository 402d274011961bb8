"""Weights deleted by others: reported by `status` and `plan`, and uploaded again before anything starts."""

from __future__ import annotations

import pytest

from lmi_deploy.domain.weights import manifest_key, weights_prefix
from tests.support.cloud_app import CloudApp
from tests.support.fakes import model_files

FILE = "model.safetensors"


def _key(app: CloudApp) -> str:
    (manifest,) = app.depot().weights.all()
    return f"{weights_prefix(manifest.name)}{FILE}"


def _started_actions(app: CloudApp, *argv: str) -> list[str]:
    """The actions of an `up`."""
    result = app.lmi("up", "--yes", "--json", *argv)
    assert result.code == 0, result.err
    return [line["key"].partition(":")[0] for line in result.lines if line["event"] == "finished"]


@pytest.mark.parametrize("damage", ["deleted", "cut off", "replaced"])
def test_deleted_weights_are_drift_and_uploaded_before_an_instance_starts(app: CloudApp, damage: str) -> None:
    app.up()
    store, key = app.depot().store, _key(app)
    content = b"".join(store.read(key))
    match damage:
        case "deleted":
            store.delete([key])
        case "cut off":
            store.put(key, content[:-1])
        case "replaced":
            store.put(key, content[:-1] + bytes([content[-1] ^ 1]))
    output = {"deleted": "is missing", "cut off": "bytes, but the manifest says", "replaced": "was replaced"}[
        damage
    ]
    status = app.lmi("status", "tiny", "--json")
    assert (status.code, status.result["standing"]) == (4, "drifted")
    assert f"{FILE} " in status.result["why"]
    assert output in status.result["why"]
    plan = app.lmi("plan", "--exit-code")
    assert plan.code == 4
    assert output in plan.out
    planned = app.lmi("plan", "--json").result["actions"]
    assert [action["key"].partition(":")[0] for action in planned] == ["PushWeights"]
    scaled = app.lmi("scale", "tiny", "2", "--yes")
    assert (scaled.code, "a new instance would fail to start" in scaled.err) == (5, True), scaled.err
    assert _started_actions(app) == ["PushWeights"]
    assert b"".join(store.read(key)) == content
    assert app.lmi("status", "tiny").code == 0
    assert app.lmi("plan", "--exit-code").code == 0


def test_only_lost_files_are_uploaded_again(app: CloudApp) -> None:
    app.up()
    store, key = app.depot().store, _key(app)
    store.delete([key])
    figures = {
        key.replace("_", " "): value for key, value in app.lmi("plan", "--json").result["figures"].items()
    }
    assert figures["to move"] == str(len(model_files()[FILE]))


def test_lost_manifest_is_drift(app: CloudApp) -> None:
    app.up()
    (manifest,) = app.depot().weights.all()
    app.depot().store.delete([manifest_key(manifest.name)])
    status = app.lmi("status", "tiny", "--json")
    assert (status.code, "the manifest of" in status.result["why"]) == (4, True)
    assert _started_actions(app)[0] == "PushWeights"
    assert app.lmi("status", "tiny").code == 0


def test_extra_file_is_refused_before_an_instance_starts(app: CloudApp) -> None:
    app.up()
    store, key = app.depot().store, _key(app)
    store.put(f"{key}.bak", b"x")
    app.cloud.account_state.calls.clear()
    result = app.lmi("up", "--yes", "--set", "options.dtype=fp32")
    assert result.code == 5
    assert "not part of this model" in result.err
    assert not {"create_model", "update_endpoint"} & {*app.cloud.account_state.calls}


def test_weights_in_the_artifact_are_checked_there(app: CloudApp) -> None:
    packed = ("--set", "weights.deliver=artifact")
    app.up(*packed)
    store = app.depot().store
    (key,) = [stored.key for stored in store.list("artifacts/tiny/") if stored.key.endswith(FILE)]
    content = b"".join(store.read(key))
    store.delete([key])
    assert _started_actions(app, *packed) == ["PutArtifact"]
    assert b"".join(store.read(key)) == content
    assert app.lmi("plan", "--exit-code", *packed).code == 0
