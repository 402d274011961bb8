"""`lmi doctor` against the emulator and a local Hub: what works, what is broken, and the remedy of each."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lmi_deploy.cli.command_group import lmi
from lmi_deploy.cli.error_boundary import run
from tests.support.emulator_process import ACCOUNT, REGION, Emulated
from tests.support.hub import HubModels, HubState, LocalHub, serve_hub
from tests.support.json_output import require_described
from tests.support.sagemaker_fixtures import SECRET

TOKEN = "hf_canary_5e1c"
HEADER = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
FILES = {
    "config.json": json.dumps({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}).encode(),
    "model.safetensors": len(HEADER).to_bytes(8, "little") + HEADER + bytes(4),
}
RECIPE = f"""
name: chat
model_id: org/m
engine: accelerate
task: text-generation
instance_type: ml.g5.xlarge
endpoint:
  region: {REGION}
  role: execution
"""


@pytest.fixture(scope="module")
def hub() -> Iterator[LocalHub]:
    state = HubState(HubModels(), tokens=frozenset({TOKEN}))
    with serve_hub({"org/m": FILES}, state=state) as running:
        yield running


@pytest.fixture
def doctor(
    chain: None,
    hub: LocalHub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Any:
    for name, value in {
        "HF_ENDPOINT": hub.url,
        "HF_TOKEN": TOKEN,
        "HF_HOME": str(tmp_path / "hf"),
        "LMI_STATE_HOME": str(tmp_path / "state"),
        "LMI_CACHE_HOME": str(tmp_path / "cache"),
        "PATH": "/nowhere",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    Path("chat.yaml").write_text(RECIPE)
    Path("here.yaml").write_text(
        "name: chat\nmodel_id: org/m\nengine: accelerate\nendpoint: {target: local}\n"
    )

    def examined(*argv: str) -> tuple[int, dict[str, list[Any]], dict[str, Any]]:
        code = run(lmi, ["doctor", "--json", *argv])
        out, err = capsys.readouterr()
        assert TOKEN not in out + err
        assert SECRET not in out + err
        require_described(["doctor", "--json"], out)
        lines = [json.loads(line) for line in out.splitlines()]
        rows: dict[str, list[Any]] = {}
        for line in lines:
            if line["event"] == "row":
                rows.setdefault(line["check"], []).append(line)
        return code, rows, lines[-1]

    return examined


def states(rows: dict[str, list[Any]]) -> dict[str, str]:
    """The worst of each check."""
    order = ("broken", "not-checked", "warning", "ok")
    return {check: min((row["state"] for row in ones), key=order.index) for check, ones in rows.items()}


def test_recipe_is_checked_with_its_role_bucket_quota_permissions_and_model(
    doctor: Any, aws: Emulated
) -> None:
    aws.role()
    code, rows, _ = doctor("chat.yaml")
    assert code == 1
    assert "role/execution may not ecr:GetAuthorizationToken" in rows["permissions"][1]["text"]
    everything = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    aws.client("iam").put_role_policy(
        RoleName="execution", PolicyName="all", PolicyDocument=json.dumps(everything)
    )
    code, rows, result = doctor("chat.yaml")
    found = states(rows)
    assert code == 0, [
        row["text"] + row["remedy"] for ones in rows.values() for row in ones if row["state"] == "broken"
    ]
    assert result["ok"] is True
    assert result["states"]["broken"] == 0
    assert ACCOUNT in rows["identity"][0]["text"]
    assert found["role"] == found["bucket"] == found["quota"] == found["model"] == found["token"] == "ok"
    assert found["permissions"] in ("ok", "warning")
    assert rows["token"][0]["text"] == "of local (read), from HF_TOKEN"
    assert rows["credentials"][0]["text"] == "from the environment"
    # Requests that go to an emulator are said so.
    assert [row["state"] for row in rows["addresses"]] == ["warning", "warning"]


def test_missing_role_and_too_small_quota_are_broken_for_a_recipe_alone(doctor: Any) -> None:
    code, rows, result = doctor(
        "chat.yaml", "--set", "endpoint.role=no-such-role", "--set", "endpoint.count=10000"
    )
    found = states(rows)
    assert code == 1
    assert result["error"]["kind"] == "SetupBroken"
    assert (found["role"], found["quota"], found["model"]) == ("broken", "broken", "ok")
    assert "lmi iam chat.yaml" in rows["role"][0]["remedy"]
    assert "request-service-quota-increase" in rows["quota"][0]["remedy"]
    assert found["permissions"] == "not-checked"
    code, rows, _ = doctor()
    assert code == 0
    assert states(rows)["role"] == "warning"


def test_refused_credentials_and_token_are_broken_and_the_rest_is_not_repeated(
    doctor: Any, aws: Emulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    monkeypatch.setenv("HF_TOKEN", "bad")
    code, rows, _ = doctor("chat.yaml")
    found = states(rows)
    assert code == 1
    assert (found["identity"], found["token"]) == ("broken", "broken")
    assert "HF_TOKEN" in rows["token"][0]["text"]
    assert {found[name] for name in ("role", "bucket", "quota", "permissions")} == {"not-checked"}


def test_without_credentials_only_a_recipe_that_needs_them_is_broken(
    doctor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    assert doctor("chat.yaml")[0] == 1
    code, rows, _ = doctor()
    assert code == 0
    assert rows["credentials"][0]["state"] == "warning"
    assert "aws sso login" in rows["credentials"][0]["remedy"]


def test_expired_credentials_are_broken(doctor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CREDENTIAL_EXPIRATION", "2020-01-01T00:00:00Z")
    code, rows, _ = doctor("chat.yaml")
    assert code == 1
    assert rows["credentials"][0]["state"] == "broken"
    assert "expired" in rows["credentials"][0]["text"]
    assert rows["credentials"][0]["remedy"]


def test_expired_credentials_are_no_bug_of_any_other_command(
    doctor: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_CREDENTIAL_EXPIRATION", "2020-01-01T00:00:00Z")
    assert run(lmi, ["plan", "chat.yaml"]) == 1
    assert "AWS credentials: they have expired" in capsys.readouterr().err


def test_recipe_for_this_machine_asks_nothing_of_aws(doctor: Any) -> None:
    code, rows, _ = doctor("here.yaml")
    assert code == 0, rows
    assert not {*rows} & {"credentials", "identity", "role", "quota"}
    assert {"devices", "extras", "model"} <= {*rows}
    code, rows, _ = doctor("here.yaml", "--set", "endpoint.runtime=djl-serving")
    assert (code, rows["DJLServing"][0]["state"]) == (1, "broken")


def test_offline_sends_no_request_and_takes_few_seconds(
    doctor: Any, aws: Emulated, hub: LocalHub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LMI_AWS_REQUESTS", str(tmp_path / "requests"))
    monkeypatch.setenv("HF_ENDPOINT", "http://192.0.2.1:9")
    began = time.monotonic()
    code, rows, _ = doctor("--offline")
    assert code == 0
    assert time.monotonic() - began < 5
    assert not (tmp_path / "requests").exists()
    assert states(rows)["identity"] == "not-checked"
    assert rows["token"][0]["text"] == "from HF_TOKEN; not sent to the Hub"


def test_address_that_is_none_is_broken_and_not_shown(doctor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "me:canary@host")
    code, rows, _ = doctor("--offline")
    assert code == 1
    assert "canary" not in str(rows)
    assert rows["addresses"][1]["state"] == "broken"
