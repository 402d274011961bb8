"""What `lmi iam` prints is enough for a deployment's whole life, and one right less is missed: IAM enforced."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lmi_deploy.cli import lmi
from lmi_deploy.cli.boundary import run
from tests.support.emulated import REGION, Emulated, emulator

RECIPE = """\
name: echo
model_id: ./model
engine: custom
instance_type: ml.m5.xlarge
handler: {file: model.py}
probe: {body: '{"inputs": "OK"}'}
endpoint: {role: serving, autoscaling: {min: 1, max: 2, invocations_per_instance: 60}}
"""
HANDLER = "from djl_python import Output\n\n\ndef handle(inputs):\n    return Output().add_as_json({})\n"
LIFE = (
    ("plan", "r.yaml"),
    ("up", "r.yaml", "--yes"),
    ("up", "r.yaml", "--yes"),
    ("up", "r.yaml", "--yes", "--set", "endpoint.count=2"),
    ("status", "r.yaml"),
    ("invoke", "r.yaml", "--body", '{"inputs": "x"}'),
    ("down", "r.yaml", "--yes", "--purge"),
)


@dataclass
class Account:
    """The emulator with IAM enforced, and a user whose policies we set."""

    aws: Emulated
    capsys: pytest.CaptureFixture[str]
    documents: dict[str, Any] = field(default_factory=dict)

    def lmi(self, *argv: str) -> tuple[int, str]:
        """Exit code, and all that was said."""
        code = run(lmi, argv)
        out, err = self.capsys.readouterr()
        return code, out + err

    def grant(self, *, less: str = "", part: str = "deployer") -> None:
        """The printed policies, with one action taken out of one of them."""
        iam = self.aws.client("iam")
        documents = json.loads(json.dumps(self.documents))
        statements = documents[part]["Statement"]
        for statement in statements:
            statement["Action"] = [action for action in statement["Action"] if action != less]
        documents[part]["Statement"] = [statement for statement in statements if statement["Action"]]
        iam.put_user_policy(UserName="ada", PolicyName="p", PolicyDocument=json.dumps(documents["deployer"]))
        iam.put_role_policy(
            RoleName="serving", PolicyName="p", PolicyDocument=json.dumps(documents["execution"])
        )


@pytest.fixture(scope="module")
def enforcing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Emulated, str, str]]:
    with emulator(tmp_path_factory.mktemp("aws"), "--speed", "1000000", "--enforce-iam") as aws:
        iam = aws.client("iam")
        iam.create_user(UserName="ada")
        key = iam.create_access_key(UserName="ada")["AccessKey"]
        yield aws, key["AccessKeyId"], key["SecretAccessKey"]


@pytest.fixture
def account(
    enforcing: tuple[Emulated, str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Account:
    aws, key, secret = enforcing
    _no_bucket(aws)
    chain = {"AWS_ENDPOINT_URL": aws.url, "AWS_REGION": REGION, "AWS_CONFIG_FILE": "/nowhere"}
    homes = {f"LMI_{kind}_HOME": str(tmp_path / kind) for kind in ("STATE", "CACHE")}
    for name, value in {**chain, **homes, "AWS_ACCESS_KEY_ID": "root", "AWS_SECRET_ACCESS_KEY": "x"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    _write_model(tmp_path)
    account = Account(aws, capsys)
    assert run(lmi, ["iam", "r.yaml"]) == 0
    account.documents = json.loads(capsys.readouterr().out)
    iam = aws.client("iam")
    if not [role for role in iam.list_roles()["Roles"] if role["RoleName"] == "serving"]:
        trust = json.dumps(account.documents["trust"])
        iam.create_role(RoleName="serving", AssumeRolePolicyDocument=trust)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    return account


def _write_model(folder: Path) -> None:
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    header += b" " * (-len(header) % 8)
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text('{"architectures": ["Echo"]}')
    (folder / "model" / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    (folder / "model.py").write_text(HANDLER)
    (folder / "r.yaml").write_text(RECIPE)


def test_what_is_printed_is_enough_for_a_whole_life(account: Account) -> None:
    account.grant()
    for command in LIFE:
        code, told = account.lmi(*command)
        assert code == 0, (command, told)
        assert "not authorized" not in told, (command, told)
        assert "not checked" not in told, (command, told)


@pytest.mark.parametrize(
    "less",
    [
        "iam:PassRole",
        "s3:CreateBucket",
        "s3:PutObject",
        "sagemaker:CreateModel",
        "sagemaker:CreateEndpointConfig",
        "sagemaker:CreateEndpoint",
        "sagemaker:AddTags",
        "sagemaker:InvokeEndpoint",
        "application-autoscaling:RegisterScalableTarget",
    ],
)
def test_one_right_less_is_named(account: Account, less: str) -> None:
    account.grant(less=less)
    code, told = account.lmi("up", "r.yaml", "--yes")
    account.grant()
    assert account.lmi("down", "r.yaml", "--yes", "--purge")[0] == 0
    assert code != 0, told
    assert less in told


def _no_bucket(aws: Emulated) -> None:
    """To be made by each test again."""
    s3 = aws.client("s3")
    for bucket in s3.list_buckets()["Buckets"]:
        for stored in s3.list_objects_v2(Bucket=bucket["Name"]).get("Contents", ()):
            s3.delete_object(Bucket=bucket["Name"], Key=stored["Key"])
        s3.delete_bucket(Bucket=bucket["Name"])
