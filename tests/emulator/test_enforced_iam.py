"""`--enforce-iam`: a caller may do what its policies allow, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.emulator.conftest import FULL_SPEED
from tests.support.emulator_process import ACCOUNT, BUCKET, IMAGE, REGION, TRUST, Emulated, emulator, folder

ROLE = f"arn:aws:iam::{ACCOUNT}:role/execution"
MINE = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:*/mine-*"


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    with emulator(tmp_path_factory.mktemp("strict"), *FULL_SPEED, "--enforce-iam") as running:
        running.role()
        running.upload("artifacts/one", {"serving.properties": "engine=Python\n"})
        yield running


def user(aws: Emulated, name: str, *statements: dict[str, Any]) -> Any:
    """Clients of a user with these permissions."""
    iam = aws.client("iam")
    iam.create_user(UserName=name)
    policy = {"Version": "2012-10-17", "Statement": list(statements)}
    iam.put_user_policy(UserName=name, PolicyName="rights", PolicyDocument=json.dumps(policy))
    key = iam.create_access_key(UserName=name)["AccessKey"]
    return lambda service: aws.client(service, key=key)


def allow(action: Any, resource: Any = "*", **conditions: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **conditions}


def create_model(clients: Any, name: str, **more: Any) -> None:
    container = {"Image": IMAGE, "ModelDataSource": {"S3DataSource": folder(f"s3://{BUCKET}/artifacts/one/")}}
    clients("sagemaker").create_model(
        ModelName=name, ExecutionRoleArn=ROLE, PrimaryContainer=container, **more
    )


def denied(client: Any, operation: str, **params: Any) -> tuple[str, str]:
    with pytest.raises(client.exceptions.ClientError) as refusal:
        client._make_api_call(operation, params)
    return refusal.value.response["Error"]["Code"], refusal.value.response["Error"].get("Message", "")


PASS = allow(
    "iam:PassRole", ROLE, Condition={"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}}
)


def test_allowed_actions_succeed_and_others_are_denied(strict: Emulated) -> None:
    clients = user(strict, "enough", allow("sagemaker:*Model", MINE), PASS)
    create_model(clients, "mine-1")
    assert clients("sagemaker").describe_model(ModelName="mine-1")["ModelName"] == "mine-1"
    assert denied(clients("sagemaker"), "DescribeModel", ModelName="other") == (
        "AccessDeniedException",
        f"User: arn:aws:iam::{ACCOUNT}:user/enough is not authorized to perform: sagemaker:DescribeModel on "
        f"resource: arn:aws:sagemaker:{REGION}:{ACCOUNT}:model/other because no identity-based policy allows "
        "the sagemaker:DescribeModel action",
    )


def test_create_model_needs_iam_pass_role(strict: Emulated) -> None:
    clients = user(strict, "no-pass", allow("sagemaker:*"))
    with pytest.raises(
        Exception, match=r"iam:PassRole on resource: arn:aws:iam::123456789012:role/execution"
    ):
        create_model(clients, "mine-2")


def test_tags_need_their_own_permission_and_match_conditions(strict: Emulated) -> None:
    tagged = {"StringEquals": {"aws:RequestTag/team": "a"}}
    clients = user(
        strict, "tagger", PASS, allow(["sagemaker:CreateModel", "sagemaker:AddTags"], "*", Condition=tagged)
    )
    create_model(clients, "mine-3", Tags=[{"Key": "team", "Value": "a"}])
    with pytest.raises(Exception, match="not authorized to perform: sagemaker:CreateModel"):
        create_model(clients, "mine-4", Tags=[{"Key": "team", "Value": "b"}])
    without = user(strict, "untagging", PASS, allow("sagemaker:CreateModel"))
    with pytest.raises(Exception, match="not authorized to perform: sagemaker:AddTags"):
        create_model(without, "mine-5", Tags=[{"Key": "team", "Value": "a"}])


@pytest.mark.parametrize(("kind", "most"), [("user", 2048), ("group", 5120), ("role", 10_240)])
def test_inline_policies_share_a_quota(strict: Emulated, kind: str, most: int) -> None:
    """The sum of all of a user, group or role, without whitespace; a replaced policy counts once."""
    iam, name = strict.client("iam"), f"full-{kind}"
    trust = {"AssumeRolePolicyDocument": json.dumps(TRUST)} if kind == "role" else {}
    iam._make_api_call(f"Create{kind.title()}", {f"{kind.title()}Name": name, **trust})

    def put(policy: str, size: int) -> None:
        document = json.dumps(
            {"Version": "2012-10-17", "Statement": [allow("s3:GetObject", "arn:aws:s3:::")]}
        )
        fill = size - len("".join(document.split()))
        document = document.replace("arn:aws:s3:::", "arn:aws:s3:::" + "x" * fill)
        given = {f"{kind.title()}Name": name, "PolicyName": policy, "PolicyDocument": document}
        iam._make_api_call(f"Put{kind.title()}Policy", given)

    put("one", most - 1000)
    put("two", 1000)
    put("two", 1000)
    with pytest.raises(
        iam.exceptions.LimitExceededException, match=f"Maximum policy size of {most} bytes exceeded"
    ):
        put("two", 1001)
    with pytest.raises(iam.exceptions.LimitExceededException, match=f"{kind} {name}"):
        put("three", 200)


def test_managed_and_trust_policies_have_quotas(strict: Emulated) -> None:
    iam = strict.client("iam")
    long = json.dumps(
        {"Version": "2012-10-17", "Statement": [allow("s3:GetObject", "arn:aws:s3:::" + "x" * 6100)]}
    )
    with pytest.raises(iam.exceptions.LimitExceededException, match="PolicySize: 6144"):
        iam.create_policy(PolicyName="long", PolicyDocument=long)
    with pytest.raises(iam.exceptions.LimitExceededException, match="ACLSizePerRole: 2048"):
        iam.create_role(RoleName="long", AssumeRolePolicyDocument=long)
    iam.create_user(UserName="attached")
    document = json.dumps({"Version": "2012-10-17", "Statement": [allow("s3:GetObject")]})
    arns = [
        iam.create_policy(PolicyName=f"p{number}", PolicyDocument=document)["Policy"]["Arn"]
        for number in range(11)
    ]
    for arn in arns[:10]:
        iam.attach_user_policy(UserName="attached", PolicyArn=arn)
    with pytest.raises(iam.exceptions.LimitExceededException, match="PoliciesPerUser: 10"):
        iam.attach_user_policy(UserName="attached", PolicyArn=arns[10])


def test_explicit_deny_overrides_allow(strict: Emulated) -> None:
    clients = user(strict, "denied", allow("*"), {**allow("sagemaker:List*"), "Effect": "Deny"})
    code, message = denied(clients("sagemaker"), "ListModels")
    assert code == "AccessDeniedException"
    assert message.endswith("with an explicit deny in an identity-based policy")


def test_s3_and_iam_permissions_are_enforced(strict: Emulated) -> None:
    clients = user(strict, "reader", allow("s3:GetObject", f"arn:aws:s3:::{BUCKET}/artifacts/*"))
    s3 = clients("s3")
    assert s3.get_object(Bucket=BUCKET, Key="artifacts/one/serving.properties")["Body"].read()
    assert denied(s3, "PutObject", Bucket=BUCKET, Key="artifacts/x", Body=b"")[0] == "AccessDenied"
    assert denied(s3, "ListObjectsV2", Bucket=BUCKET)[0] == "AccessDenied"
    assert denied(clients("iam"), "GetRole", RoleName="execution")[0] == "AccessDenied"
    assert denied(clients("logs"), "DescribeLogGroups")[0] == "AccessDeniedException"
    runtime = denied(clients("sagemaker-runtime"), "InvokeEndpoint", EndpointName="x", Body=b"")
    assert runtime[0] == "AccessDeniedException"
    assert clients("sts").get_caller_identity()["Arn"] == f"arn:aws:iam::{ACCOUNT}:user/reader"


PUT_TAGS = (
    r"not authorized to perform: s3:PutObjectTagging on resource: arn:aws:s3:::weights-and-artifacts/w/"
)


def test_object_tags_need_their_own_permission(strict: Emulated) -> None:
    """On upload, on a multipart upload, and where a copy takes tags over; a copy without tags needs none."""
    objects = allow(["s3:GetObject", "s3:PutObject"], f"arn:aws:s3:::{BUCKET}/*")
    s3 = user(strict, "tagless", objects)("s3")
    for operation, more in (("PutObject", {"Body": b""}), ("CreateMultipartUpload", {})):
        code, message = denied(s3, operation, Bucket=BUCKET, Key="w/x", Tagging="a=b", **more)
        assert code == "AccessDenied"
        assert re.search(PUT_TAGS, message)
        s3._make_api_call(operation, {"Bucket": BUCKET, "Key": "w/x", **more})
    strict.client("s3").put_object(Bucket=BUCKET, Key="w/tagged", Body=b"", Tagging="a=b")
    copy = {"Bucket": BUCKET, "Key": "w/copy", "CopySource": f"{BUCKET}/w/tagged"}
    assert "perform: s3:GetObjectTagging" in denied(s3, "CopyObject", **copy)[1]
    s3.copy_object(**copy, TaggingDirective="REPLACE")
    tags = allow(["s3:GetObjectTagging", "s3:PutObjectTagging"], f"arn:aws:s3:::{BUCKET}/*")
    s3 = user(strict, "tagging", objects, tags)("s3")
    s3.copy_object(**copy)
    s3.put_object(Bucket=BUCKET, Key="w/x", Body=b"", Tagging="a=b")


def test_permission_for_one_secret_reads_only_that_secret(strict: Emulated) -> None:
    api = strict.client("secretsmanager")
    own = api.create_secret(Name="mine", SecretString="a")["ARN"]
    api.create_secret(Name="other", SecretString="b")
    secrets = user(strict, "keeper", allow("secretsmanager:GetSecretValue", own))("secretsmanager")
    assert secrets.get_secret_value(SecretId="mine")["SecretString"] == "a"
    assert secrets.get_secret_value(SecretId=own)["SecretString"] == "a"
    assert denied(secrets, "GetSecretValue", SecretId="other")[0] == "AccessDeniedException"


def test_deleting_a_scaled_endpoint_needs_one_more_permission(strict: Emulated) -> None:
    uri = f"s3://{BUCKET}/artifacts/one/"
    strict.model("scaled", uri)
    strict.endpoint_config("scaled", "scaled")
    strict.endpoint("scaled")
    strict.settled("scaled")
    strict.client("application-autoscaling").register_scalable_target(
        ServiceNamespace="sagemaker",
        ResourceId="endpoint/scaled/variant/AllTraffic",
        ScalableDimension="sagemaker:variant:DesiredInstanceCount",
        MinCapacity=1,
        MaxCapacity=2,
    )
    clients = user(strict, "deleter", allow("sagemaker:*"))
    message = denied(clients("sagemaker"), "DeleteEndpoint", EndpointName="scaled")[1]
    assert message.startswith("An Application AutoScaling scalable target exists for a variant being deleted")
    right = allow("application-autoscaling:DeregisterScalableTarget")
    user(strict, "both", allow("sagemaker:*"), right)("sagemaker").delete_endpoint(EndpointName="scaled")


def test_assumed_role_has_the_permissions_of_the_role(strict: Emulated) -> None:
    iam = strict.client("iam")
    trust = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}],
    }
    iam.create_role(RoleName="lister", AssumeRolePolicyDocument=json.dumps(trust))
    policy = {"Version": "2012-10-17", "Statement": [allow("sagemaker:ListModels")]}
    iam.put_role_policy(RoleName="lister", PolicyName="p", PolicyDocument=json.dumps(policy))
    arn = f"arn:aws:iam::{ACCOUNT}:role/lister"
    given = strict.client("sts").assume_role(RoleArn=arn, RoleSessionName="s")["Credentials"]
    client = strict.client("sagemaker", key=given)
    assert "Models" in client.list_models()
    assert "assumed-role/lister/s is not authorized" in denied(client, "ListEndpoints")[1]
