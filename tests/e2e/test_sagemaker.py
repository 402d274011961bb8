"""The wheel's `lmi` and recipes/smollm2-g5.yaml on the emulator, with the real model: from the first `up` to
`down`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.e2e.conftest import ROOT, Installed
from tests.support.emulator_process import Emulated, emulator
from tests.support.serving_environment import serving_python

RECIPE = str(ROOT / "recipes" / "smollm2-g5.yaml")
NAME = "smollm2-g5"
ROLE, JOB_ROLE = "lmi-endpoint", "lmi-transfer-job"
BY_JOB = ("--set", "weights.via=job")
pytestmark = pytest.mark.model
NOTHING: dict[str, list[Any]] = {"endpoints": [], "configs": [], "models": []}


@dataclass(frozen=True)
class Account:
    lmi: Installed
    aws: Emulated

    def run(self, *arguments: str, code: int = 0) -> str:
        done = self.lmi.run(*arguments)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def allow(self, *more: str) -> None:
        """Grants the roles of the recipe what `lmi iam` prints."""
        printed = json.loads(self.run("iam", RECIPE, *more))
        iam = self.aws.client("iam")
        with suppress(iam.exceptions.EntityAlreadyExistsException):
            iam.create_role(RoleName=ROLE, AssumeRolePolicyDocument=json.dumps(printed["trust"]))
        policy = json.dumps(printed["execution"])
        iam.put_role_policy(RoleName=ROLE, PolicyName="lmi", PolicyDocument=policy)
        if "job" in printed:
            iam.create_role(RoleName=JOB_ROLE, AssumeRolePolicyDocument=json.dumps(printed["trust"]))
            policy = json.dumps(printed["job"])
            iam.put_role_policy(RoleName=JOB_ROLE, PolicyName="lmi", PolicyDocument=policy)

    def left(self) -> dict[str, list[Any]]:
        """The resources in SageMaker, and the folders of the bucket."""
        sagemaker, s3 = self.aws.client("sagemaker"), self.aws.client("s3")
        (bucket,) = [each["Name"] for each in s3.list_buckets()["Buckets"]]
        folders = s3.list_objects_v2(Bucket=bucket, Delimiter="/").get("CommonPrefixes", [])
        return {
            "endpoints": sagemaker.list_endpoints()["Endpoints"],
            "configs": sagemaker.list_endpoint_configs()["EndpointConfigs"],
            "models": sagemaker.list_models()["Models"],
            "folders": [each["Prefix"] for each in folders],
        }


@pytest.fixture(scope="module")
def account(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    folder = tmp_path_factory.mktemp("emulator")
    flags = ("--python", str(serving_python()), "--speed", "120")
    hub = {"HF_ENDPOINT": installed.environment["HF_ENDPOINT"]}
    with emulator(folder, *flags, containers=True, variables=hub) as aws:
        keys = {"AWS_ENDPOINT_URL": aws.url, **aws.keys}
        region = {"AWS_REGION": aws.region, "AWS_EC2_METADATA_DISABLED": "true"}
        lmi = replace(installed, environment={**installed.environment, **keys, **region})
        yield Account(lmi, aws)
        lmi.run("down", NAME, "--yes")


def test_recipe_becomes_an_endpoint_and_down_deletes_everything(account: Account) -> None:
    output = account.run("plan", RECIPE, "--exit-code", "--json", code=1)
    assert "lmi-endpoint" in output
    account.allow()
    account.run("plan", RECIPE, "--exit-code", code=4)
    up = account.run("up", RECIPE, "--yes", "--json")
    assert json.loads(up.splitlines()[-1])["ok"]

    assert "Paris" in account.run("invoke", NAME, "What is the capital of France?")
    account.run("plan", RECIPE, "--exit-code")
    assert "in-step" in account.run("status", NAME)

    account.run("down", NAME, "--yes")
    assert account.left() == NOTHING | {"folders": ["manifests/", "weights/"]}


@pytest.mark.landing
def test_weights_come_by_a_job_and_a_rollback_goes_back_to_one_instance(account: Account) -> None:
    for line in map(json.loads, account.lmi.run("weights", "ls", "--json").stdout.splitlines()):
        if line["event"] == "row":  # of the other test; alone, there is not even a bucket
            account.run("weights", "rm", "--yes", line["name"])
    account.allow(*BY_JOB)
    up = account.run("up", RECIPE, "--yes", "--json", *BY_JOB)
    started = [line["title"] for line in map(json.loads, up.splitlines()) if line["event"] == "started"]
    assert any("by a job on 1 x ml.m5.4xlarge" in title for title in started)
    assert "Paris" in account.run("invoke", NAME, "--stream", "What is the capital of France?")

    account.run("up", RECIPE, "--yes", *BY_JOB, "--set", "endpoint.count=2")
    assert "2 of 2 instances" in account.run("status", NAME)
    account.run("rollback", NAME, "--yes")
    assert "1 of 1 instances" in account.run("status", NAME)
    account.run("down", NAME, "--yes", "--purge")
    assert account.left() == NOTHING | {"folders": []}
