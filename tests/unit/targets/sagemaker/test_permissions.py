"""The policies of a deployment: valid, without wildcard actions, enough for its own resources and for no
others."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.sagemaker.resource_names import resource_name
from lmi_deploy.emulator.iam.policy_evaluation import AccessRequest, allows, trusts
from lmi_deploy.targets.sagemaker.permissions import policies
from lmi_deploy.targets.sagemaker.permissions.cli_commands import INLINE_MOST, MANAGED_MOST, role_commands
from tests.support.cloud_factories import ACCOUNT, CLOUD, cloud_facts, cloud_spec

G5 = "instance_type: ml.g5.xlarge\n"
HERE = f"us-east-1:{ACCOUNT}"
JOB = "weights: {via: job, token_secret: hub-token}\n"
EXTRAS = (
    "ttl: 8h\n",
    "weights: {deliver: artifact}\n",
    "weights: {deliver: mount}\n",
    "endpoint: {kms_key: alias/models}\n",
    "endpoint: {kms_key: 0000-1111}\n",
    f"endpoint: {{kms_key: 'arn:aws:kms:us-east-1:{ACCOUNT}:key/0-1'}}\n",
    "endpoint: {network_isolation: true}\n",
    "endpoint: {vpc: {subnets: [subnet-1], security_groups: [sg-1]}}\n",
    "endpoint: {autoscaling: {min: 1, max: 4, invocations_per_instance: 60}}\n",
    "endpoint: {role: team/serve}\n",
    "container: {image: '999999999999.dkr.ecr.us-east-1.amazonaws.com/mine/server:1'}\n",
)


def grown(*extras: str) -> Spec:
    return cloud_spec(G5 + "".join(extras))


def allowed(document: dict[str, Any], action: str, resource: str, **context: str) -> bool:
    return allows([document], AccessRequest(action, resource, context))


@given(st.sampled_from(EXTRAS))
def test_policy_documents_are_valid_for_iam(extra: str) -> None:
    documents = json.loads(json.dumps(policies(grown(extra)).documents))
    assert set(documents) == {"deployer", "execution", "trust"}
    for part in ("deployer", "execution"):
        statements = documents[part]["Statement"]
        sids = [statement["Sid"] for statement in statements]
        assert len(set(sids)) == len(sids)
        assert all(re.fullmatch("[A-Za-z0-9]+", sid) for sid in sids)
        for statement in statements:
            assert all(re.fullmatch("[a-z0-9-]+:[A-Za-z]+", action) for action in statement["Action"])
            assert all(
                resource == "*" or resource.startswith("arn:aws:") for resource in statement["Resource"]
            )
        assert len(json.dumps(documents[part], separators=(",", ":"))) < MANAGED_MOST
    assert trusts(documents["trust"], "sagemaker.amazonaws.com")


def test_deployer_may_change_only_this_deployment() -> None:
    document = policies(grown()).documents["deployer"]
    config = resource_name("m", "settings")
    arn = f"arn:aws:sagemaker:{HERE}"
    for action, resource in (
        ("sagemaker:CreateEndpoint", f"{arn}:endpoint/m"),
        ("sagemaker:CreateEndpoint", f"{arn}:endpoint-config/{config}"),
        ("sagemaker:AddTags", f"{arn}:model/{config}"),
        ("sagemaker:CreateModel", f"{arn}:model/{config}"),
        ("s3:PutObject", f"arn:aws:s3:::{CLOUD.bucket}/artifacts/m/0/serving.properties"),
        ("s3:PutObject", f"arn:aws:s3:::{CLOUD.bucket}/weights/org--m/c-0/model.safetensors"),
        ("s3:PutObject", f"arn:aws:s3:::{CLOUD.bucket}/deployments/m/lock.json"),
        ("s3:CreateBucket", f"arn:aws:s3:::{CLOUD.bucket}"),
        ("logs:FilterLogEvents", f"arn:aws:logs:{HERE}:log-group:/aws/sagemaker/Endpoints/m:*"),
    ):
        assert allowed(document, action, resource), action
    for action, resource in (
        ("sagemaker:DeleteEndpoint", f"{arn}:endpoint/m-prod"),
        ("sagemaker:DeleteModel", f"{arn}:model/m-prod-{config[2:]}"),
        ("s3:PutObject", f"arn:aws:s3:::{CLOUD.bucket}/artifacts/m-prod/0/serving.properties"),
        ("s3:DeleteObject", f"arn:aws:s3:::{CLOUD.bucket}/weights/org--other/c-0/model.safetensors"),
        ("s3:GetObject", "arn:aws:s3:::another/weights/org--m/x"),
    ):
        assert not allowed(document, action, resource), resource


def test_default_bucket_of_a_region_without_account_regional_names_is_allowed_beside_the_others() -> None:
    granted = policies(grown("endpoint: {regions: [us-east-1, me-south-1]}\n"))
    for name in (f"lmi-{ACCOUNT}-us-east-1-an", f"lmi-{ACCOUNT}-me-south-1"):
        assert allowed(granted.deployer.document, "s3:CreateBucket", f"arn:aws:s3:::{name}")


def test_regions_of_the_recipe_are_all_allowed_for_this_deployment() -> None:
    granted = policies(grown("endpoint: {regions: [us-east-1, us-west-2]}\n"))
    config, west = resource_name("m", "settings"), f"us-west-2:{ACCOUNT}"
    bucket = f"arn:aws:s3:::lmi-{ACCOUNT}-us-west-2-an"
    for action, resource in (
        ("sagemaker:CreateEndpoint", f"arn:aws:sagemaker:{west}:endpoint/m"),
        ("sagemaker:CreateEndpoint", f"arn:aws:sagemaker:{HERE}:endpoint/m"),
        ("sagemaker:CreateModel", f"arn:aws:sagemaker:{west}:model/{config}"),
        ("s3:CreateBucket", bucket),
        ("s3:ListBucket", bucket),
        ("s3:GetObject", f"{bucket}/weights/org--m/c-0/model.safetensors"),
        ("s3:PutObject", f"{bucket}/deployments/m/lock.json"),
    ):
        assert allowed(granted.deployer.document, action, resource), action
    assert not allowed(
        granted.deployer.document, "sagemaker:DeleteEndpoint", f"arn:aws:sagemaker:{west}:endpoint/other"
    )
    execution = granted.execution.document
    assert allowed(execution, "s3:GetObject", f"{bucket}/weights/org--m/c-0/model.safetensors")
    image = "repository/djl-inference"
    assert allowed(execution, "ecr:BatchGetImage", f"arn:aws:ecr:us-west-2:763104351884:{image}")
    assert len(json.dumps(granted.deployer.document, separators=(",", ":"))) < MANAGED_MOST


def test_pass_role_is_limited_to_the_role_and_to_sagemaker() -> None:
    document = policies(grown()).documents["deployer"]
    role = f"arn:aws:iam::{ACCOUNT}:role/lmi-endpoint"
    to_sagemaker = {"iam:passedtoservice": "sagemaker.amazonaws.com"}
    assert allowed(document, "iam:PassRole", role, **to_sagemaker)
    assert not allowed(document, "iam:PassRole", role, **{"iam:passedtoservice": "ec2.amazonaws.com"})
    assert not allowed(document, "iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/admin", **to_sagemaker)


def test_execution_role_reads_its_model_and_writes_nothing() -> None:
    document = policies(grown()).documents["execution"]
    weights = f"arn:aws:s3:::{CLOUD.bucket}/weights/org--m/c-0/model.safetensors"
    assert allowed(document, "s3:GetObject", weights)
    assert allowed(document, "s3:ListBucket", f"arn:aws:s3:::{CLOUD.bucket}")
    assert not allowed(document, "s3:PutObject", weights)
    image = "arn:aws:ecr:us-east-1:763104351884:repository/djl-inference"
    assert allowed(document, "ecr:BatchGetImage", image)
    assert not allowed(document, "ecr:BatchGetImage", "arn:aws:ecr:us-east-1:763104351884:repository/other")


def test_transfer_job_does_not_let_the_execution_role_write() -> None:
    """The job has a role of its own, which writes its own model's weights and cannot touch other jobs."""
    found = policies(grown(JOB))
    written = {"Put", "Delete", "Create", "Abort"}
    actions = {right.action for right in found.execution.rights if right.action.startswith(("s3:", "kms:"))}
    assert [action for action in actions if any(verb in action for verb in written)] == []
    assert found.job is not None
    job, bucket = found.job.document, f"arn:aws:s3:::{CLOUD.bucket}"
    for resource in ("weights/org--m/c-0/x", "manifests/org--m/c-0.json", "jobs/m-0123456789/shards/0.json"):
        assert allowed(job, "s3:PutObject", f"{bucket}/{resource}"), resource
    for resource in (
        "weights/org--other/c-0/x",
        "manifests/org--other/c-0.json",
        "jobs/other-0123456789/lmi/start.py",
        "jobs/m-b-0123456789/lmi/start.py",
        "jobs/m-0123456789-abcdef0123/lmi/start.py",
        "artifacts/m/0/model.py",
        "deployments/m/lock.json",
    ):
        assert not allowed(job, "s3:PutObject", f"{bucket}/{resource}"), resource
        assert not allowed(job, "s3:DeleteObject", f"{bucket}/{resource}"), resource


def test_both_roles_can_be_passed_and_are_in_the_commands() -> None:
    spec = grown(JOB.replace("via: job", "via: job, job: {role: team/transfers}"))
    found = policies(spec)
    to_sagemaker = {"iam:passedtoservice": "sagemaker.amazonaws.com"}
    for role in ("lmi-endpoint", "team/transfers"):
        arn = f"arn:aws:iam::{ACCOUNT}:role/{role}"
        assert allowed(found.deployer.document, "iam:PassRole", arn, **to_sagemaker)
    lines = "\n".join(role_commands(spec, "r.yaml", found))
    assert "lmi iam r.yaml --part job > job.json" in lines
    assert "put-role-policy --role-name transfers --policy-name lmi-m-us-east-1-job" in lines


def test_job_with_a_kms_key_may_create_a_grant() -> None:
    """SageMaker demands kms:CreateGrant of a processing job's role where its volumes have a key."""
    found = policies(grown(JOB + "endpoint: {kms_key: 0-1}\n")).job
    assert found is not None
    key = f"arn:aws:kms:{HERE}:key/0-1"
    assert allowed(found.document, "kms:CreateGrant", key, **{"kms:grantisforawsresource": "true"})
    assert not allowed(found.document, "kms:CreateGrant", key)
    assert allowed(found.document, "kms:GenerateDataKey", key)


def test_shared_policy_covers_only_deployments_with_its_prefix() -> None:
    found = policies(grown(JOB), prefix="team-a-")
    assert found.job is not None
    config = resource_name("team-a-chat", "settings")
    sagemaker, bucket = f"arn:aws:sagemaker:{HERE}", f"arn:aws:s3:::{CLOUD.bucket}"
    for document, action, resource in (
        (found.deployer, "sagemaker:CreateEndpoint", f"{sagemaker}:endpoint/{{}}chat"),
        (found.deployer, "sagemaker:CreateModel", f"{sagemaker}:model/{{}}{config.removeprefix('team-a-')}"),
        (found.deployer, "sagemaker:CreateProcessingJob", f"{sagemaker}:processing-job/{{}}chat-0123456789"),
        (found.deployer, "s3:PutObject", f"{bucket}/deployments/{{}}chat/lock.json"),
        (found.deployer, "s3:PutObject", f"{bucket}/jobs/{{}}chat-0123456789/in/order.json"),
        (found.execution, "s3:GetObject", f"{bucket}/artifacts/{{}}chat/0/model.py"),
        (
            found.execution,
            "logs:PutLogEvents",
            f"arn:aws:logs:{HERE}:log-group:/aws/sagemaker/Endpoints/{{}}chat:*",
        ),
        (found.job, "s3:PutObject", f"{bucket}/jobs/{{}}chat-0123456789/shards/0.json"),
    ):
        assert allowed(document.document, action, resource.format("team-a-")), resource
        assert not allowed(document.document, action, resource.format("team-b-")), resource
    weights = f"{bucket}/weights/org--any/c-0/x"
    assert allowed(found.deployer.document, "s3:PutObject", weights)
    assert allowed(found.job.document, "s3:PutObject", weights)
    assert allowed(found.execution.document, "s3:GetObject", weights)
    assert not allowed(found.execution.document, "s3:PutObject", weights)
    for policy in (found.deployer, found.execution, found.job):
        assert policy.characters < INLINE_MOST


def test_weights_in_the_artifact_need_no_permission_of_their_own() -> None:
    document = policies(grown("weights: {deliver: artifact}\n")).documents["execution"]
    assert not allowed(document, "s3:GetObject", f"arn:aws:s3:::{CLOUD.bucket}/weights/org--m/c-0/x")
    assert allowed(document, "s3:GetObject", f"arn:aws:s3:::{CLOUD.bucket}/artifacts/m/0/x")


@pytest.mark.parametrize(
    ("extra", "part", "begins"),
    [
        ("endpoint: {vpc: {subnets: [s-1], security_groups: [sg-1]}}\n", "execution", "ec2:"),
        ("endpoint: {kms_key: 0-1}\n", "execution", "kms:"),
        ("endpoint: {kms_key: 0-1}\n", "deployer", "kms:"),
        (
            "endpoint: {autoscaling: {min: 1, max: 2, invocations_per_instance: 9}}\n",
            "deployer",
            "cloudwatch:PutMetric",
        ),
    ],
)
def test_permission_is_granted_only_with_what_needs_it(extra: str, part: str, begins: str) -> None:
    def has(document: dict[str, Any]) -> bool:
        return any(action.startswith(begins) for each in document["Statement"] for action in each["Action"])

    assert has(policies(grown(extra)).documents[part])
    assert not has(policies(grown()).documents[part])


def test_own_bucket_of_the_user_is_never_created() -> None:
    own = cloud_spec(cloud=replace(CLOUD, bucket="models"))
    assert "MakeBucket" not in {statement.sid for statement in policies(own).deployer.grants}
    assert "MakeBucket" in {statement.sid for statement in policies(grown()).deployer.grants}


def test_model_in_s3_can_be_read_at_its_prefix_only() -> None:
    plain = cloud_facts()
    existing = replace(plain.listing, source="s3", model_id="s3://theirs/models/m/")
    document = policies(cloud_spec(listing=existing)).documents["deployer"]
    assert allowed(document, "s3:GetObject", "arn:aws:s3:::theirs/models/m/config.json")
    assert not allowed(document, "s3:GetObject", "arn:aws:s3:::theirs/models/other/config.json")


def test_kms_alias_becomes_a_condition() -> None:
    document = policies(grown("endpoint: {kms_key: alias/models}\n")).documents["execution"]
    statement = next(each for each in document["Statement"] if each["Sid"] == "ReadEncrypted")
    assert statement["Resource"] == [f"arn:aws:kms:{HERE}:key/*"]
    assert statement["Condition"] == {"ForAnyValue:StringEquals": {"kms:ResourceAliases": "alias/models"}}


def test_simulated_permissions_contain_no_placeholder() -> None:
    found = policies(grown()).deployer.rights
    assert all("?" not in right.resource for right in found)
    assert len(found) == len(set(found)) > 40


def test_printed_commands_create_the_role_of_the_recipe() -> None:
    spec = grown("endpoint: {role: team/serve}\n")
    lines = "\n".join(role_commands(spec, "'my recipe.yaml'", policies(spec)))
    assert "--role-name serve --path /team/ --assume-role-policy-document file://trust.json" in lines
    assert "lmi iam 'my recipe.yaml' --part execution > execution.json" in lines
    assert "aws iam create-policy --policy-name lmi-m-us-east-1-deployer" in lines


def test_too_long_managed_policy_becomes_an_inline_policy() -> None:
    text = (
        "weights: {via: job, token_secret: hub-token}\n"
        "endpoint:\n  kms_key: alias/a-long-name-for-a-key\n"
        "  vpc: {subnets: [s-1], security_groups: [sg-1]}\n"
        "  autoscaling: {min: 1, max: 2, invocations_per_instance: 9}\n"
    )
    spec = replace(grown(text), name="a-name-of-48-characters-which-is-the-longest-one")
    found = policies(spec)
    assert MANAGED_MOST < found.deployer.characters < INLINE_MOST
    lines = "\n".join(role_commands(spec, "r.yaml", found))
    assert "put-role-policy --role-name YOUR-ROLE" in lines
