"""The wheel's `lmi` and recipes/smollm2-g5.yaml before the emulator: the real model, from the Hub to nothing left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.e2e.conftest import ROOT, Installed
from tests.support.emulated import Emulated, emulator
from tests.support.serving import serving_python

RECIPE = str(ROOT / "recipes" / "smollm2-g5.yaml")
NAME = "smollm2-g5"
pytestmark = pytest.mark.model


@dataclass(frozen=True)
class Account:
    lmi: Installed
    aws: Emulated

    def run(self, *arguments: str, code: int = 0) -> str:
        done = self.lmi.run(*arguments)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def left(self) -> dict[str, list[Any]]:
        """What SageMaker holds, and the folders of the bucket."""
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
    with emulator(folder, "--python", str(serving_python()), "--speed", "120", containers=True) as aws:
        aws.role("lmi-endpoint")
        keys = {"AWS_ENDPOINT_URL": aws.url, "AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any"}
        region = {"AWS_REGION": aws.region, "AWS_EC2_METADATA_DISABLED": "true"}
        lmi = replace(installed, environment={**installed.environment, **keys, **region})
        yield Account(lmi, aws)
        lmi.run("down", NAME, "--yes")


def test_a_recipe_becomes_an_endpoint_that_answers_and_nothing_is_left(account: Account) -> None:
    account.run("plan", RECIPE, "--exit-code", code=4)
    up = account.run("up", RECIPE, "--yes", "--json")
    assert json.loads(up.splitlines()[-1])["ok"]

    assert "Paris" in account.run("invoke", NAME, "What is the capital of France?")
    account.run("plan", RECIPE, "--exit-code")
    assert "in-step" in account.run("status", NAME)

    account.run("down", NAME, "--yes")
    left = account.left()
    assert (left["endpoints"], left["configs"], left["models"]) == ([], [], [])
    assert left["folders"] == ["manifests/", "weights/"]
