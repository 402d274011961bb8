"""docs/reference/aws-requests.md has each call of the adapters, and each of its statements grants the listed
actions."""

from __future__ import annotations

import ast
from dataclasses import replace

import botocore.session
from botocore import xform_name

from lmi_deploy.aws.s3.error_messages import ACTIONS
from lmi_deploy.domain.in_place_weights import InPlaceWeights
from lmi_deploy.domain.permissions import PolicyStatement
from lmi_deploy.targets.sagemaker.permissions import load_role_of, policies
from tests.support.aws_requests import rows
from tests.support.cloud_factories import built_spec, cloud_facts, cloud_spec, compiled_spec, shared_spec
from tests.unit.targets.sagemaker.test_permission_calls import ADAPTERS, OF_ECR, OTHERS, setup_policy

SERVICES = {
    "sagemaker": "sagemaker",
    "sagemaker-runtime": "sagemaker-runtime",
    "application-autoscaling": "application-auto-scaling",
    "cloudtrail": "cloudtrail",
    "logs": "cloudwatch-logs",
    "service-quotas": "service-quotas",
    "pricing": "pricing",
    "resourcegroupstaggingapi": "resource-groups-tagging-api",
    "ecr": "ecr",
    "iam": "iam",
    "scheduler": "scheduler",
    "secretsmanager": "secrets-manager",
    "sns": "sns",
    "sts": "sts",
}
"""boto3's names, and those of the request log."""
WHOLE = (
    "instance_type: ml.g5.xlarge\nttl: 8h\nweights: {via: job, token_secret: hub-token}\nendpoint:\n"
    "  kms_key: alias/x\n  scheduler_role: ending\n"
    "  vpc: {subnets: [subnet-1], security_groups: [sg-1]}\n"
    "  autoscaling: {min: 1, max: 2, backlog_per_instance: 9}\n"
    "  alarms: {topic: 'arn:aws:sns:us-east-1:123456789012:on-call'}\n"
    "  asynchronous: {output: 's3://answers/x/', error_topic: 'arn:aws:sns:us-east-1:123456789012:failed'}\n"
)

KEY = "arn:aws:kms:us-east-1:123456789012:key/12345678-1234-1234-1234-123456789012"


def grants() -> list[PolicyStatement]:
    """Of a recipe with everything, and of one whose model is in S3."""
    listing = cloud_facts().listing
    existing = cloud_spec(
        listing=type(listing)(
            model_id="s3://theirs/m/", commit=listing.commit, files=listing.files, source="s3"
        )
    )
    found = policies(cloud_spec(WHOLE))
    assert found.job is not None
    weights = InPlaceWeights(address="s3://theirs/m/", files=(), kms_keys=(KEY,))
    in_place = policies(replace(existing, weights=replace(existing.weights, in_place=weights)))
    compiling = [policies(compiled_spec(script=script)) for script in (True, False)]
    deployers = (
        policies(existing).deployer,
        policies(built_spec()).deployer,
        policies(shared_spec()).deployer,
        *(each.deployer for each in compiling),
        in_place.deployer,
        in_place.execution,
    )
    loading = policies(cloud_spec(), load_role=load_role_of(cloud_spec(), None))
    assert loading.load is not None
    by_job = (loading.deployer, loading.load)
    every = (found.deployer, found.execution, found.job, *deployers, *by_job, setup_policy())
    return [statement for policy in every for statement in policy.grants]


def called() -> set[str]:
    session = botocore.session.get_session()
    words = {
        node.value
        for path in ADAPTERS
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    other_location = {
        f"{name} {operation}"
        for service, name in SERVICES.items()
        for operation in session.get_service_model(service).operation_names
        if xform_name(operation) in words
        and (service == "ecr" or operation not in OF_ECR)
        and (service, operation) not in OTHERS
    }
    names = {xform_name(name): name for name in session.get_service_model("s3").operation_names}
    return other_location | {f"s3 {names[call]}" for call in ACTIONS}


def test_every_call_of_the_adapters_is_documented() -> None:
    listed = [row.request for row in rows()]
    assert len(set(listed)) == len(listed)
    assert called() - set(listed) == set()


def test_every_documented_statement_grants_the_required_actions() -> None:
    existing: dict[str, set[str]] = {}
    for statement in grants():
        existing.setdefault(statement.sid, set()).update(statement.actions)
    named = set()
    for row in rows():
        assert row.source, row.request
        if [*row.granted_by] == ["-"]:
            continue
        unknown = set(row.granted_by) - set(existing)
        assert not unknown, (row.request, unknown)
        given = set().union(*(existing[sid] for sid in row.granted_by))
        assert set(row.demanded) <= given, (row.request, set(row.demanded) - given)
        for sid in row.granted_by:
            assert existing[sid] & set(row.demanded), (row.request, sid)
        named |= set(row.granted_by)
    assert set(existing) - named == set(), "statements that no request needs"


def test_every_printed_permission_is_required_by_a_request() -> None:
    demanded = {action for row in rows() for action in row.demanded}
    assert {action for statement in grants() for action in statement.actions} - demanded == set()
