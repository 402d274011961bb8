"""The Hub of a transfer job: this machine's own, where the job can reach it; else it is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lmi_deploy.domain.environment_digests import value_digest
from lmi_deploy.workflows.dependencies import Deps
from tests.support.cloud_app import RECIPE, CloudHouse, write_recipe
from tests.support.crash_scenarios import BY_JOB

VPC = "endpoint: {vpc: {subnets: [subnet-12345678], security_groups: [sg-12345678]}}\n"


class FarHub(CloudHouse):
    """A machine whose HF_ENDPOINT is set."""

    address = ""

    def deps(self) -> Deps:
        return replace(super().deps(), hub_address=lambda: self.address)


@pytest.fixture
def far(house: CloudHouse) -> FarHub:
    return FarHub(house.root)


@pytest.mark.parametrize(
    ("address", "more", "said"),
    [
        ("", "", ""),
        ("https://mirror.example/hf", "", ""),
        ("http://10.0.0.7:8080", VPC, ""),
        ("http://10.0.0.7:8080", "", "is of a private network"),
        ("http://127.0.0.1:8080", VPC, "is this machine's own"),
        ("http://localhost:8080", "", "is this machine's own"),
        ("http://[::1]:8080", "", "is this machine's own"),
        ("https://me:s3cr3t@mirror.example", "", "holds a password"),
    ],
)
def test_the_job_is_told_the_hub_or_you_are_told_why_not(
    far: FarHub, address: str, more: str, said: str
) -> None:
    far.address = address
    write_recipe(BY_JOB + more)
    plan = far.lmi("plan", "--json")
    assert plan.code == 0, plan.out
    job = next(action for action in plan.result["actions"] if action["action"] == "run-transfer-job")
    handed = dict(job["settings"]["environment"]).get("HF_ENDPOINT", "")
    assert handed == ("" if said or not address else value_digest(address))
    told = [line["text"] for line in plan.lines if line["event"] == "notice"]
    assert any("HF_ENDPOINT" in text for text in told) == bool(said)
    assert said in " ".join(told)
    assert "s3cr3t" not in plan.out


def test_a_gated_model_needs_a_token_of_the_jobs_own(far: FarHub) -> None:
    far.hub.gated = True
    write_recipe(BY_JOB)
    assert "weights.token_secret" in far.lmi("plan").err
    write_recipe(RECIPE + "weights: {via: job, token_secret: hub-token}\n")
    far.cloud.secrets.there.add("hub-token")
    assert "gated" not in far.lmi("plan").err


def test_another_hub_is_no_other_deployment(far: FarHub) -> None:
    far.up()
    write_recipe(BY_JOB)
    far.address = "https://mirror.example"
    assert "nothing to do" in far.lmi("plan").out
