"""`lmi iam` in process: documents on stdout, the commands that create the role on stderr."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.support.cloud_app import CloudApp
from tests.support.local_app import MODEL, LocalApp

RECIPE = f"name: tiny\nmodel_id: {MODEL}\nengine: accelerate\ninstance_type: ml.g5.xlarge\n"


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalApp:
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(RECIPE)
    return CloudApp(tmp_path)


def test_iam_prints_all_documents_as_one_object(app: LocalApp) -> None:
    result = app.lmi("iam", "tiny.yaml")
    assert result.code == 0
    assert list(json.loads(result.out)) == ["deployer", "execution", "trust"]
    assert "aws iam create-role --role-name lmi-endpoint" in result.err
    assert "lmi iam tiny.yaml --part execution > execution.json" in result.err


@pytest.mark.parametrize("part", ["deployer", "execution", "trust"])
def test_iam_part_prints_one_policy_document(app: LocalApp, part: str) -> None:
    result = app.lmi("iam", "tiny.yaml", "--part", part)
    document = json.loads(result.out)
    assert result.err == ""
    assert document["Version"] == "2012-10-17"
    assert document["Statement"]


def test_iam_json_is_one_result(app: LocalApp) -> None:
    result = app.lmi("iam", "tiny.yaml", "--json", "--part", "trust").result
    assert result["trust"]["Statement"][0]["Action"] == "sts:AssumeRole"
    assert app.lmi("iam", "tiny.yaml", "--json").err == ""


def test_iam_of_a_local_recipe_is_an_error(app: LocalApp) -> None:
    result = app.lmi("iam", "tiny.yaml", "--set", "endpoint.target=local", "--set", "instance_type=[]")
    assert (result.code, result.out) == (2, "")
    assert "needs no AWS permissions" in result.err


def test_printed_commands_repeat_overlay_and_overrides(
    app: LocalApp,
) -> None:
    Path("my tiny.yaml").write_text(RECIPE + "overlays: {prod: {endpoint: {bucket: bucket-of-prod}}}\n")
    given = ("my tiny.yaml", "--overlay", "prod", "--set", "container.environment={A: b c}")
    result = app.lmi("iam", *given)
    [line] = [line for line in result.err.splitlines() if "--part deployer" in line]
    pasted = shlex.split(line.partition(" > ")[0])
    assert pasted[:2] == ["lmi", "iam"]
    again = app.lmi(*pasted[1:])
    assert json.loads(again.out) == json.loads(result.out)["deployer"]
    assert "bucket-of-prod" in again.out


def test_transfer_job_has_a_role_of_its_own(app: LocalApp) -> None:
    result = app.lmi("iam", "tiny.yaml", "--set", "weights.via=job")
    assert list(json.loads(result.out)) == ["deployer", "execution", "job", "trust"]
    assert "aws iam create-role --role-name lmi-transfer-job" in result.err
    refused = app.lmi("iam", "tiny.yaml", "--part", "job")
    assert (refused.code, refused.out) == (2, "")
    assert "--part job: the recipe has no transfer job" in refused.err


def test_shared_policy_covers_a_name_prefix(app: LocalApp) -> None:
    result = app.lmi("iam", "tiny.yaml", "--shared", "ti")
    assert ":endpoint/ti*" in result.out
    assert "lmi iam tiny.yaml --shared ti --part execution > execution.json" in result.err
    assert "put-role-policy --role-name lmi-endpoint --policy-name lmi-ti-us-east-1 " in result.err
    assert "10,240" not in result.err
    for prefix, why in (
        ("chat-", "the recipe's name is tiny"),
        ("Ti", "use lower case letters"),
        ("", "use lower"),
    ):
        refused = app.lmi("iam", "tiny.yaml", "--shared", prefix)
        assert (refused.code, refused.out) == (2, "")
        assert why in refused.err


def test_iam_reports_how_many_deployments_one_role_can_serve(app: LocalApp) -> None:
    result = app.lmi("iam", "tiny.yaml")
    characters = len(json.dumps(json.loads(result.out)["execution"], separators=(",", ":")))
    assert (
        f"The policies of a role may have 10,240 characters in total: {10240 // characters} deployments"
        in result.err
    )
