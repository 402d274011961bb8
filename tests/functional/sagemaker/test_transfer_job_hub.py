"""The Hub of a transfer job is that of this machine where the job can reach it; otherwise the reason is
reported."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lmi_deploy.domain.environment_digests import value_digest
from lmi_deploy.targets.sagemaker.target import SageMakerTarget
from tests.support.cloud_app import RECIPE, CloudApp, write_recipe
from tests.support.crash_scenarios import BY_JOB

VPC = "endpoint: {vpc: {subnets: [subnet-12345678], security_groups: [sg-12345678]}}\n"


class RemoteHub(CloudApp):
    """A machine whose HF_ENDPOINT is set."""

    address = ""

    def sagemaker(self) -> SageMakerTarget:
        return replace(super().sagemaker(), hub_address=lambda: self.address)


@pytest.fixture
def remote_hub(app: CloudApp) -> RemoteHub:
    return RemoteHub(app.root)


@pytest.mark.parametrize(
    ("address", "more", "output"),
    [
        ("", "", ""),
        ("https://mirror.example/hf", "", ""),
        ("http://10.0.0.7:8080", VPC, ""),
        ("http://10.0.0.7:8080", "", "is in a private network"),
        ("http://127.0.0.1:8080", VPC, "exists only on this machine"),
        ("http://localhost:8080", "", "exists only on this machine"),
        ("http://[::1]:8080", "", "exists only on this machine"),
        ("https://me:s3cr3t@mirror.example", "", "contains a password"),
    ],
)
def test_hub_address_is_passed_to_the_job_or_the_reason_is_reported(
    remote_hub: RemoteHub, address: str, more: str, output: str
) -> None:
    remote_hub.address = address
    write_recipe(BY_JOB + more)
    plan = remote_hub.lmi("plan", "--json")
    assert plan.code == 0, plan.out
    job = next(action for action in plan.result["actions"] if action["action"] == "run-transfer-job")
    handed = dict(job["settings"]["environment"]).get("HF_ENDPOINT", "")
    assert handed == ("" if output or not address else value_digest(address))
    results = [line["text"] for line in plan.lines if line["event"] == "notice"]
    assert any("HF_ENDPOINT" in text for text in results) == bool(output)
    assert output in " ".join(results)
    assert "s3cr3t" not in plan.out


def test_gated_model_needs_a_token_secret_for_the_job(remote_hub: RemoteHub) -> None:
    remote_hub.hub.gated = True
    write_recipe(BY_JOB)
    assert "weights.token_secret" in remote_hub.lmi("plan").err
    write_recipe(RECIPE + "weights: {via: job, token_secret: hub-token}\n")
    remote_hub.cloud.secrets.names.add("hub-token")
    assert "gated" not in remote_hub.lmi("plan").err


def test_another_hub_address_changes_nothing(remote_hub: RemoteHub) -> None:
    remote_hub.up()
    write_recipe(BY_JOB)
    remote_hub.address = "https://mirror.example"
    assert "nothing to do" in remote_hub.lmi("plan").out
