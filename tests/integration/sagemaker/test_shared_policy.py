"""Many deployments, one role: separate policies fill it, and one shared policy suffices for all. IAM is
enforced."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.sagemaker.test_least_privilege import PLAIN
from tests.support.emulator_process import Emulated
from tests.support.least_privilege import ROLE, Principal, policies_of, settle, write_model

RECIPE = PLAIN + "endpoint: {role: serving}\n"
TEAM = ("team-a-one", "team-a-two", "team-a-three")


@pytest.fixture
def ada(
    enforcing: Emulated,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Principal:
    settle(enforcing, monkeypatch, tmp_path)
    write_model(tmp_path / "other")
    return Principal(enforcing, capsys, monkeypatch)


def recipe(name: str, *, model: str = "model") -> str:
    file = Path(f"{name}.yaml")
    file.write_text(RECIPE.replace("name: echo", f"name: {name}").replace("./model", f"./{model}"))
    return str(file)


def test_role_policy_quota_limits_separate_policies(ada: Principal) -> None:
    """About eight: IAM counts the inline policies of a role together."""
    iam, reserved = ada.aws.client("iam"), 0
    policies_of(ada, recipe("chat-0"))
    most = 10_240 // len(json.dumps(ada.documents["execution"], separators=(",", ":")))
    while reserved < most:
        put_policy(ada, f"chat-{reserved}")
        reserved += 1
    full = pytest.raises(iam.exceptions.LimitExceededException, match="10240 bytes exceeded for role serving")
    with full:
        put_policy(ada, f"chat-{reserved}")
    assert 5 < reserved < 12
    for name in iam.list_role_policies(RoleName=ROLE)["PolicyNames"]:
        iam.delete_role_policy(RoleName=ROLE, PolicyName=name)


def put_policy(ada: Principal, name: str) -> None:
    """As the printed commands do it."""
    policies_of(ada, recipe(name))
    document = json.dumps(ada.documents["execution"])
    ada.aws.client("iam").put_role_policy(RoleName=ROLE, PolicyName=f"lmi-{name}", PolicyDocument=document)


def test_shared_policy_covers_its_prefix_and_nothing_else(ada: Principal) -> None:
    policies_of(ada, recipe(TEAM[0]), "--shared", "team-a-")
    files = [recipe(TEAM[0]), recipe(TEAM[1]), recipe(TEAM[2], model="other")]
    foreign = recipe("team-b-one")
    ada.enter()
    ada.grant()
    for file in files:
        code, output = ada.lmi("up", file, "--yes")
        assert code == 0, output
        assert "not authorized" not in output
        assert "not checked" not in output
    code, output = ada.lmi("up", foreign, "--yes")
    assert code == 1
    assert "team-b-one" in output
    assert "may not" in output
    for name in TEAM:
        code, output = ada.lmi("down", name, "--yes", "--purge")
        assert code == 0, output
        assert "not authorized" not in output
