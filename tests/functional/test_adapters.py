"""LoRA adapters and files of the user on this machine: planned, put into the artifact, probed, invoked, changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.adapters import adapter_files, write_adapter
from tests.support.fake_servers import Behaviour, FakeResponse, chat
from tests.support.fakes import model_files
from tests.support.local_app import MODEL, REF, LocalApp

RECIPE = f"""\
name: tiny
model_id: {MODEL}
engine: custom
handler: {{file: model.py}}
adapters:
  french: org/french
  danish: ./danish
files: {{extra: {{data/labels.json: labels.json}}}}
probe: {{body: '{{"messages": []}}', expect: OK}}
endpoint: {{target: local}}
"""
HANDLER = "def handle(inputs):\n    return None\n"


@pytest.fixture(autouse=True)
def recipe(app: LocalApp) -> None:
    app.hub.models["org/french"] = adapter_files()
    write_adapter(Path("danish"), rank=8)
    Path("tiny.yaml").write_text(RECIPE)
    Path("model.py").write_text(HANDLER)
    Path("labels.json").write_text("[]")


def artifact(app: LocalApp) -> dict[str, Path]:
    """The files of the one artifact."""
    (digest,) = app.state.artifacts(REF.name)
    root = app.state.artifact(REF.name, digest)
    return {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}


def test_adapters_and_files_are_in_the_artifact(app: LocalApp) -> None:
    assert app.lmi("up", "--yes").code == 0
    files = artifact(app)
    assert sorted(files) == [
        "adapters/danish/adapter_config.json",
        "adapters/danish/adapter_model.safetensors",
        "adapters/french/adapter_config.json",
        "adapters/french/adapter_model.safetensors",
        "data/labels.json",
        "model.py",
        "serving.properties",
    ]
    assert (
        files["adapters/french/adapter_model.safetensors"].read_bytes()
        == adapter_files()["adapter_model.safetensors"]
    )
    # A folder of the user's may change in place: it is copied, the cache is linked.
    assert files["adapters/danish/adapter_config.json"].stat().st_nlink == 1
    assert files["adapters/french/adapter_config.json"].stat().st_nlink == 2
    assert app.lmi("plan", "--exit-code").code == 0


def test_plan_lists_each_adapter_with_its_size(app: LocalApp) -> None:
    plan = app.lmi("plan", "--json").result
    assert set(plan["figures"]) >= {"adapter_danish", "adapter_french"}
    fetched = [action["title"] for action in plan["actions"] if action["action"] == "fetch-weights"]
    assert any(title.startswith("download the adapter french, org/french at ") for title in fetched)
    keys = [action["key"] for action in plan["actions"]]
    assert len(keys) == len(set(keys))
    text = app.lmi("plan").out
    assert "adapter danish: " in text


def asked(app: LocalApp, refuses: str = "") -> list[str]:
    """The adapter of each request to the next servers; `refuses` is answered with an error."""
    seen: list[str] = []

    def answer(body: dict[str, Any]) -> FakeResponse:
        seen.append(body.get("adapter", ""))
        if refuses and body.get("adapter") == refuses:
            return 424, "application/json", b'{"code": 424, "message": "no such adapter"}'
        return chat(body)

    app.servers.next.extend([Behaviour(answer=answer)] * 5)
    return seen


def test_probe_asks_the_model_and_each_adapter(app: LocalApp) -> None:
    seen = asked(app)
    result = app.lmi("up", "--yes")
    assert result.code == 0, result.err
    assert seen == ["", "danish", "french"]
    assert "answered (french)" in result.err


def test_up_fails_with_the_name_of_the_adapter_that_does_not_answer(app: LocalApp) -> None:
    asked(app, refuses="french")
    result = app.lmi("up", "--yes")
    assert result.code == 1
    assert "the probe of the adapter french failed: the server responded 424" in result.err


def test_invoke_sends_a_known_adapter_and_refuses_others_with_the_list(app: LocalApp) -> None:
    seen = asked(app)
    assert app.lmi("up", "--yes").code == 0
    del seen[:]
    assert app.lmi("invoke", "tiny", "--adapter", "french", "--body", "{}").code == 0
    assert seen == ["french"]
    for flags in ((), ("--raw",)):
        refused = app.lmi("invoke", "tiny", "--adapter", "frnch", "--body", "{}", *flags)
        assert refused.code == 2
        assert "tiny: no adapter frnch" in refused.err
        assert "did you mean french? It has danish, french" in refused.err
    assert seen == ["french"]


def test_changed_adapter_is_an_update_beside_the_old_server(app: LocalApp) -> None:
    assert app.lmi("up", "--yes").code == 0
    write_adapter(Path("danish"), rank=16)
    planned = app.lmi("plan").out
    assert "~ adapter.danish: " in planned
    assert "switch the address" in planned
    assert app.lmi("up", "--yes").code == 0
    config = artifact(app)["adapters/danish/adapter_config.json"].read_text()
    assert '"r": 16' in config


def test_removed_adapter_leaves_the_artifact_and_the_probe(app: LocalApp) -> None:
    assert app.lmi("up", "--yes").code == 0
    seen = asked(app)
    assert app.lmi("up", "--yes", "--set", "adapters={danish: ./danish}").code == 0
    assert seen == ["", "danish"]
    assert not any("french" in path for path in artifact(app))


def test_adapter_that_changes_between_plan_and_write_is_an_integrity_error(app: LocalApp) -> None:
    assert app.lmi("plan", "--out", "plan.json").code == 0
    write_adapter(Path("danish"), rank=16)
    result = app.lmi("up", "--yes", "plan.json")
    assert result.code == 6
    assert "its content has changed since the plan was made" in result.err
    assert app.state.artifacts(REF.name) == ()


def test_status_and_ls_name_the_adapters(app: LocalApp) -> None:
    assert app.lmi("up", "--yes").code == 0
    status = app.lmi("status", "tiny").out
    assert "adapter  danish (" in status
    assert "adapter  french (org/french at " in status
    assert "danish, french" in app.lmi("ls").out
    assert (
        app.lmi("status", "tiny", "--json").result["summary"]["adapter.french"].startswith("org/french at ")
    )


def test_missing_repository_and_file_stop_the_plan(app: LocalApp) -> None:
    result = app.lmi("plan", "--set", "adapters={a: org/none}")
    assert result.code != 0
    assert "org/none" in result.err
    result = app.lmi("validate", "--set", "files.extra={a.txt: none.txt}")
    assert (result.code, "files.extra.a.txt: none.txt: " in result.err) == (2, True)
    result = app.lmi("validate", "--set", "adapters={a: ./none}")
    assert (result.code, "adapters.a: ./none: " in result.err) == (2, True)


def test_files_of_the_user_are_limited_in_size(app: LocalApp) -> None:
    with Path("labels.json").open("wb") as file:
        file.truncate(20_000_001)
    result = app.lmi("plan")
    assert result.code == 2
    assert "files.extra: 20.0 MB in all" in result.err


def test_render_writes_the_files_of_the_user(app: LocalApp) -> None:
    result = app.lmi("render", "-o", "out")
    assert result.code == 0, result.err
    assert Path("out/data/labels.json").read_text() == "[]"
    assert "not written: 4 files of adapters" in result.err


def test_weights_push_pushes_the_adapters(app: LocalApp) -> None:
    result = app.lmi("weights", "push", "--json")
    assert result.code == 0, result.err
    names = [each["name"].partition("/")[0] for each in result.result["additional"]]
    assert names == ["danish", "org--french"]
    assert all(f"manifests/{each['name']}.json" in app.store.objects for each in result.result["additional"])


def test_vllm_of_this_machine_is_not_asked_for_a_stream_with_an_adapter(app: LocalApp) -> None:
    """DJL's engine 0.34.0 would answer with the model itself."""
    bodies: list[dict[str, Any]] = []

    def answer(body: dict[str, Any]) -> FakeResponse:
        bodies.append(body)
        return chat(body)

    app.hub.models[MODEL] = model_files(
        hidden_size=64, num_attention_heads=4, num_hidden_layers=2, intermediate_size=128, vocab_size=256
    )
    Path("tiny.yaml").write_text(
        f"name: tiny\nmodel_id: {MODEL}\nengine: vllm\nadapters: {{french: org/french}}\n"
        "endpoint: {target: local}\n"
    )
    app.servers.next.append(Behaviour(answer=answer))
    result = app.lmi("up", "--yes")
    assert result.code == 0, result.err
    assert "ignores the adapter in a stream" in result.err
    del bodies[:]
    said = app.lmi("invoke", "tiny", "--adapter", "french", "--stream", "hi")
    assert (said.code, "this server ignores the adapter in a stream" in said.err) == (2, True)
    assert app.lmi("invoke", "tiny", "--adapter", "french", "hi", "--json").code == 0
    assert app.lmi("invoke", "tiny", "--stream", "hi").code == 0
    assert [(body.get("adapter"), bool(body.get("stream"))) for body in bodies] == [
        ("french", False),
        (None, True),
    ]
