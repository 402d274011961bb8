"""LoRA adapters on a shared endpoint: each is an inference component of its own, which changes alone."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from lmi_deploy.domain.sagemaker.component_settings import COMPONENT_HEADER, ObservedComponent
from lmi_deploy.domain.sagemaker.resource_names import adapter_component_name
from lmi_deploy.domain.sagemaker.resource_settings import TAG, TAG_ADAPTER
from tests.support.adapters import SHAPE, adapter_files
from tests.support.cloud_app import CloudApp
from tests.support.fakes import model_files
from tests.support.local_app import MODEL

FRENCH, DANISH = adapter_component_name("tiny", "french"), adapter_component_name("tiny", "danish")
BOTH = "{french: org/french, danish: org/danish}"


def write(adapters: str = BOTH, *, more: str = "") -> None:
    Path("tiny.yaml").write_text(
        f"""\
name: tiny
model_id: {MODEL}
engine: vllm
instance_type: ml.g5.12xlarge
tensor_parallel_degree: 1
adapters: {adapters}
endpoint: {{share: team}}
{more}
"""
    )


@pytest.fixture(autouse=True)
def recipe(app: CloudApp) -> None:
    app.hub.models |= {
        MODEL: model_files(**SHAPE),
        "org/french": adapter_files(),
        "org/danish": adapter_files(rank=8),
    }
    write()


def components(app: CloudApp) -> dict[str, ObservedComponent]:
    return {name: each.observed for name, each in app.cloud.account_state.components.items()}


def actions(app: CloudApp) -> list[str]:
    return [action["action"] for action in app.lmi("plan", "--json").result["actions"]]


def test_each_adapter_is_a_component_of_the_model(app: CloudApp) -> None:
    result = app.up()
    found = components(app)
    assert sorted(found) == sorted(("tiny", FRENCH, DANISH))
    assert {found[FRENCH].base, found[DANISH].base} == {"tiny"}
    account = app.cloud.account_state
    tags = dict(account.tags[account.arn("inference-component", FRENCH)])
    assert (tags[TAG], tags[TAG_ADAPTER]) == ("tiny", "french")
    assert "pack the adapter french as the artifact " in result.err
    assert f"add the adapter {FRENCH} to the model tiny" in result.err
    assert f"For an adapter, name its component in place of tiny:\n  danish: {DANISH}" in result.err
    assert actions(app) == []
    status = app.lmi("status", "tiny")
    assert status.code == 0, status.out
    assert "french" in status.out


def test_archive_has_the_files_of_the_adapter_and_the_models_artifact_has_none(app: CloudApp) -> None:
    app.up()
    objects = app.cloud.stores[app.bucket].objects
    key = components(app)[FRENCH].artifact.removeprefix(f"s3://{app.bucket}/")
    with tarfile.open(fileobj=io.BytesIO(objects[key])) as tar:
        packed = {each.name: tar.extractfile(each).read() for each in tar}  # type: ignore[union-attr]
    files = adapter_files()
    assert packed == {path: files[path] for path in ("adapter_config.json", "adapter_model.safetensors")}
    assert not [path for path in objects if "/adapters/" in path]
    (properties,) = (body for path, body in objects.items() if path.endswith("serving.properties"))
    assert b"option.enable_lora=true" in properties
    assert b"option.max_lora_rank=64" in properties
    assert b"option.max_loras=4" in properties


def test_adapter_is_added_changed_and_removed_without_a_change_of_the_model(app: CloudApp) -> None:
    write("{french: org/french}")
    app.up()
    before = components(app)
    write()
    assert "create-adapter-component" in actions(app)
    app.up()
    assert components(app)["tiny"] == before["tiny"]
    assert components(app)[FRENCH] == before[FRENCH]
    app.hub.models["org/french"] = adapter_files(rank=16)
    app.up()
    changed = components(app)
    assert changed["tiny"] == before["tiny"]
    assert changed[FRENCH].artifact != before[FRENCH].artifact
    assert changed[FRENCH].created == before[FRENCH].created
    write("{french: org/french}")
    assert [each for each in actions(app) if "component" in each] == ["delete-adapter-component"]
    app.up()
    assert sorted(components(app)) == sorted(("tiny", FRENCH))
    assert components(app)["tiny"] == before["tiny"]
    assert app.cloud.account_state.calls.count("update_component") == 0
    assert actions(app) == []


def test_rollback_restores_the_adapters_alone(app: CloudApp) -> None:
    app.up()
    before = components(app)
    app.hub.models["org/french"] = adapter_files(rank=16)
    write("{french: org/french}")
    app.up()
    rolled = app.lmi("rollback", "tiny", "--yes")
    assert rolled.code == 0, rolled.err
    after = components(app)
    assert {name: each.artifact for name, each in after.items()} == {
        name: each.artifact for name, each in before.items()
    }
    assert after["tiny"] == before["tiny"]
    assert app.lmi("status", "tiny").code == 0


def test_probe_and_invoke_name_the_component_of_the_adapter(app: CloudApp) -> None:
    asked: list[str] = []
    plain = app.cloud.account_state.answer

    def answer(name: str, request):  # type: ignore[no-untyped-def]
        asked.append(dict(request.headers).get(COMPONENT_HEADER, ""))
        return plain(name, request)

    app.cloud.account_state.answer = answer
    app.up()
    assert asked == ["", DANISH, FRENCH]
    assert app.lmi("invoke", "tiny", "Hello", "--adapter", "french", "--no-stream").code == 0
    assert asked[3:] == [FRENCH]
    assert app.lmi("invoke", "tiny", "Hello", "--adapter", "english").code == 2


def test_drift_of_an_adapter_is_reported_and_repaired(app: CloudApp) -> None:
    app.up()
    account = app.cloud.account_state
    del account.components[FRENCH]
    account.drop("inference-component", FRENCH)
    status = app.lmi("status", "tiny")
    assert (status.code, f"{FRENCH} was deleted" in status.out + status.err) == (4, True), status.out
    assert "create-adapter-component" in actions(app)
    app.up()
    assert FRENCH in components(app)
    assert app.lmi("status", "tiny").code == 0


def test_failed_adapter_is_named_and_the_model_serves_on(app: CloudApp) -> None:
    app.up()
    app.hub.models["org/french"] = adapter_files(rank=16)
    (update,) = [
        a for a in app.lmi("plan", "--json").result["actions"] if a["action"] == "update-adapter-component"
    ]
    app.cloud.account_state.failures.reasons[update["artifact"]] = (
        "LoRA rank 16 is greater than max_lora_rank"
    )
    failed = app.lmi("up", "--yes")
    assert failed.code == 1
    assert f"the update of the adapter {FRENCH} failed: LoRA rank 16" in failed.err
    app.cloud.account_state.failures.reasons.clear()
    app.up()
    assert actions(app) == []


def test_down_deletes_the_adapters_before_their_model(app: CloudApp) -> None:
    app.up()
    down = app.lmi("down", "tiny", "--yes")
    assert down.code == 0, down.err
    account = app.cloud.account_state
    assert not account.components
    assert not account.endpoints
    assert not [key for key in app.cloud.stores[app.bucket].objects if key.startswith("artifacts/")]
    assert app.lmi("ls", "--all").out == ""


def test_status_of_the_shared_endpoint_lists_models_alone(app: CloudApp) -> None:
    app.up()
    team = app.lmi("status", "team")
    assert "its models: tiny" in team.out + team.err
    assert FRENCH not in team.out + team.err


def test_prepared_model_is_not_changed_by_its_first_adapter(app: CloudApp) -> None:
    write("{}", more="options: {enable_lora: 'true'}")
    app.up()
    before = components(app)["tiny"]
    write(more="options: {enable_lora: 'true'}")
    app.up()
    assert components(app)["tiny"] == before


def test_request_to_an_adapter_keeps_the_idle_model(app: CloudApp) -> None:
    app.up()
    app.clock.sleep(8000)
    app.cloud.metrics.requests[FRENCH] = [app.clock.now()]
    kept = app.lmi("gc", "--idle", "2h", "--yes", "--json")
    assert (kept.code, kept.result["idle"]) == (0, 0), kept.err
    app.cloud.metrics.requests.clear()
    ended = app.lmi("gc", "--idle", "2h", "--yes", "--json")
    assert (ended.result["idle"], ended.result["ended"], components(app)) == (1, 1, {})
    assert app.cloud.account_state.endpoints == {}
