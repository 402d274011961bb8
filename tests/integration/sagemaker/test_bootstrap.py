"""`lmi bootstrap` over the wire, with its own policy alone: then `lmi up` works with the deployer's policy alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lmi_deploy.aws.iam_setup import AwsIamSetup
from lmi_deploy.domain.role_setup import WantedPolicy, WantedProvider, WantedRole
from lmi_deploy.errors import LmiError
from tests.integration.sagemaker.test_least_privilege import PLAIN
from tests.support.emulator_process import ACCOUNT, TRUST, Emulated
from tests.support.least_privilege import Principal, settle
from tests.support.sagemaker_fixtures import Recorder

PIPELINE = ("--pipeline", "github:acme/models")
DEPLOYER = f"arn:aws:iam::{ACCOUNT}:policy/lmi-echo-us-east-1-deployer"


@pytest.fixture
def ada(
    enforcing: Emulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Principal:
    settle(enforcing, monkeypatch, tmp_path)
    Path("echo.yaml").write_text(PLAIN)
    return Principal(enforcing, capsys, monkeypatch)


def lines(ada: Principal, *arguments: str) -> dict[str, object]:
    code, out = ada.lmi(*arguments, "--json")
    assert code == 0, out
    found: dict[str, object] = json.loads(out.splitlines()[-1])
    return found


def may(ada: Principal, document: object) -> None:
    """A new user with this policy alone."""
    ada.enter()
    iam, arn = ada.aws.client("iam"), f"arn:aws:iam::{ACCOUNT}:policy/{ada.name}"
    iam.create_policy(PolicyName=ada.name, PolicyDocument=json.dumps(document))
    iam.attach_user_policy(UserName=ada.name, PolicyArn=arn)


def test_account_is_set_up_with_the_printed_policy_and_deployed_with_the_created_one(ada: Principal) -> None:
    ada.as_root()
    printed = lines(ada, "bootstrap", "echo.yaml", "--policy", *PIPELINE)["bootstrap"]
    may(ada, printed)
    assert len(lines(ada, "bootstrap", "echo.yaml", "--yes", *PIPELINE)["changes"]) == 7
    iam = ada.aws.client("iam")
    version = iam.get_policy(PolicyArn=DEPLOYER)["Policy"]["DefaultVersionId"]
    document = iam.get_policy_version(PolicyArn=DEPLOYER, VersionId=version)["PolicyVersion"]["Document"]
    may(ada, document)
    assert lines(ada, "up", "echo.yaml", "--yes")["ok"]
    assert lines(ada, "down", "echo", "--yes")["ok"]
    may(ada, printed)
    lines(ada, "bootstrap", "echo.yaml", "--delete", "--yes", *PIPELINE)
    left = [role["RoleName"] for role in iam.list_roles()["Roles"]]
    assert not {"lmi-endpoint", "lmi-echo-pipeline"} & {*left}


def test_second_region_adds_to_the_rights_and_a_running_endpoint_keeps_its_role(ada: Principal) -> None:
    ada.as_root()
    lines(ada, "bootstrap", "echo.yaml", "--yes")
    assert lines(ada, "up", "echo.yaml", "--yes")["ok"]
    other = ("--set", "endpoint.region=eu-west-1")
    printed = lines(ada, "bootstrap", "echo.yaml", "--policy", *other)["bootstrap"]
    may(ada, printed)
    code, out = ada.lmi("bootstrap", "echo.yaml", "--yes", *other)
    assert (code, "is unknown" in out) == (0, False), out
    iam = ada.aws.client("iam")
    for region in ("us-east-1", "eu-west-1"):
        found = iam.get_role_policy(RoleName="lmi-endpoint", PolicyName=f"lmi-echo-{region}")
        assert f"lmi-{ACCOUNT}-{region}-an" in json.dumps(found["PolicyDocument"])
    for region in ("us-east-1", "eu-west-1"):
        iam.delete_role_policy(RoleName="lmi-endpoint", PolicyName=f"lmi-echo-{region}")
    lines(ada, "bootstrap", "echo.yaml", "--yes", *other)
    found = iam.get_role_policy(RoleName="lmi-endpoint", PolicyName="lmi-echo-eu-west-1")
    assert f"lmi-{ACCOUNT}-us-east-1-an" in json.dumps(found["PolicyDocument"])
    ada.as_root()
    assert "may not" not in str(lines(ada, "status", "echo"))
    code, out = ada.lmi("bootstrap", "echo.yaml", "--delete", "--yes")
    assert (code, "echo in us-east-1" in out) == (5, True), out
    assert lines(ada, "down", "echo", "--yes")["ok"]
    iam.create_user(UserName="dev")
    iam.attach_user_policy(UserName="dev", PolicyArn=DEPLOYER)
    code, out = ada.lmi("bootstrap", "echo.yaml", "--delete", "--yes")
    assert (code, "attached to user dev" in out) == (5, True), out
    with pytest.raises(iam.exceptions.DeleteConflictException):
        iam.delete_policy(PolicyArn=DEPLOYER)
    assert iam.get_role(RoleName="lmi-endpoint")


@pytest.fixture
def setup(recorder: Recorder) -> AwsIamSetup:
    return AwsIamSetup(recorder.access())


def policy(number: int) -> WantedPolicy:
    statement = {"Sid": f"S{number}", "Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}
    return WantedPolicy(
        arn=f"arn:aws:iam::{ACCOUNT}:policy/lmi-versions",
        document={"Version": "2012-10-17", "Statement": [statement]},
    )


def test_policy_keeps_its_newest_versions(setup: AwsIamSetup) -> None:
    """IAM has five at most."""
    setup.create_policy(policy(0))
    for number in range(1, 7):
        setup.update_policy(policy(number))
    found = setup.policy(policy(0).arn)
    assert found is not None
    assert (found.document, found.own) == (policy(6).document, True)
    setup.delete_policy(policy(0).arn)
    assert setup.policy(policy(0).arn) is None
    setup.delete_policy(policy(0).arn)


def test_role_that_a_lost_response_created_is_taken_and_another_is_not(setup: AwsIamSetup) -> None:
    role = WantedRole(name="lmi-lost", path="/team/", use="test", trust=TRUST, inline={})
    setup.create_role(role)
    setup.create_role(role)
    other = WantedRole(
        name="lmi-lost", path="/", use="test", trust={"Version": "2012-10-17", "Statement": []}, inline={}
    )
    with pytest.raises(LmiError, match="lmi-lost"):
        setup.create_role(other)
    setup.put_policy("lmi-lost", "p", policy(1).document)
    setup.create_policy(policy(2))
    setup.attach("lmi-lost", policy(2).arn)
    found = setup.role("lmi-lost")
    assert found is not None
    assert (found.inline, found.attached) == ({"p": policy(1).document}, {policy(2).arn})
    setup.delete_role("lmi-lost")
    setup.delete_role("lmi-lost")
    setup.delete_policy(policy(2).arn)
    assert setup.role("lmi-lost") is None


def test_identity_provider_is_created_once(setup: AwsIamSetup) -> None:
    url = "https://gitlab.com"
    arn = f"arn:aws:iam::{ACCOUNT}:oidc-provider/gitlab.com"
    assert setup.audiences(arn) is None
    for _ in range(2):
        setup.create_provider(WantedProvider(arn=arn, url=url, audience="one"))
    assert setup.audiences(arn) == ("one",)


def test_policy_that_is_not_seen_yet_is_attached_later(
    setup: AwsIamSetup, recorder: Recorder, aws: Emulated
) -> None:
    with pytest.raises(LmiError, match="not found"):
        setup.attach("lmi-absent", DEPLOYER)
    assert recorder.clock.monotonic() > 10
