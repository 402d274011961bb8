"""Eventual consistency on demand: what AWS documents as eventually consistent lags for the given time,
nothing else does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lmi_deploy.emulator.consistency_lag import Lag, parse_lag
from lmi_deploy.errors import UsageRefused
from tests.support.emulator_process import ACCOUNT, IMAGE, Emulated, emulator

LAG = "tags=300,reads=60,roles=600"
TAGS = [{"Key": "lmi:deployment", "Value": "chat"}]


@pytest.fixture(scope="module")
def lagging_emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    """Its clock moves only when the test advances it."""
    with emulator(tmp_path_factory.mktemp("late"), "--speed", "0.001", "--lag", LAG) as running:
        yield running


@pytest.fixture(scope="module")
def role(lagging_emulator: Emulated) -> str:
    role = lagging_emulator.role()
    sagemaker = lagging_emulator.client("sagemaker")
    settings = {"ExecutionRoleArn": role, "PrimaryContainer": {"Image": IMAGE}}
    assert _refusal(sagemaker.create_model, ModelName="early", **settings).startswith(
        f"Could not assume role {role}."
    )
    job = {
        "ProcessingResources": {
            "ClusterConfig": {"InstanceCount": 1, "InstanceType": "ml.m5.large", "VolumeSizeInGB": 1}
        },
        "AppSpecification": {"ImageUri": IMAGE},
    }
    refusal = _refusal(sagemaker.create_processing_job, ProcessingJobName="early", RoleArn=role, **job)
    assert refusal.startswith(f"Could not assume role {role}.")
    lagging_emulator.advance(610)
    sagemaker.create_model(ModelName="later", **settings)
    return role


def _refusal(call: Callable[..., Any], **given: Any) -> str:
    with pytest.raises(ClientError) as refused:
        call(**given)
    assert refused.value.response["Error"]["Code"] == "ValidationException"
    return str(refused.value.response["Error"]["Message"])


def _variant(model: str) -> list[dict[str, Any]]:
    return [
        {
            "VariantName": "main",
            "ModelName": model,
            "InstanceType": "ml.g5.xlarge",
            "InitialInstanceCount": 1,
        }
    ]


def _indexed(late: Emulated) -> dict[str, str]:
    """What the tagging API finds: the value of the one tag, by kind and name."""
    found = late.client("resourcegroupstaggingapi").get_resources(TagFilters=[{"Key": TAGS[0]["Key"]}])
    return {
        item["ResourceARN"].split(":", 5)[5]: item["Tags"][0]["Value"]
        for item in found["ResourceTagMappingList"]
    }


def test_reads_lag_after_writes_and_writes_do_not(lagging_emulator: Emulated, role: str) -> None:
    sagemaker = lagging_emulator.client("sagemaker")
    settings = {"ExecutionRoleArn": role, "PrimaryContainer": {"Image": IMAGE}}
    arn = f"arn:aws:sagemaker:us-east-1:{ACCOUNT}"
    sagemaker.create_model(ModelName="Reads", **settings)
    nowhere = f'Could not find model "{arn}:model/reads".'
    assert _refusal(sagemaker.describe_model, ModelName="Reads") == nowhere
    assert not sagemaker.list_models(NameContains="Reads")["Models"]
    config = {"EndpointConfigName": "reads", "ProductionVariants": _variant("Reads")}
    assert _refusal(sagemaker.create_endpoint_config, **config) == nowhere
    assert "already existing" in _refusal(sagemaker.create_model, ModelName="Reads", **settings)
    lagging_emulator.advance(61)
    assert sagemaker.describe_model(ModelName="Reads")["ModelArn"] == f"{arn}:model/reads"
    assert len(sagemaker.list_models(NameContains="Reads")["Models"]) == 1

    sagemaker.create_endpoint_config(**config)
    nowhere = f'Could not find endpoint configuration "{arn}:endpoint-config/reads".'
    endpoint = {"EndpointName": "reads", "EndpointConfigName": "reads"}
    assert _refusal(sagemaker.describe_endpoint_config, EndpointConfigName="reads") == nowhere
    assert not sagemaker.list_endpoint_configs(NameContains="reads")["EndpointConfigs"]
    assert _refusal(sagemaker.create_endpoint, **endpoint) == nowhere
    lagging_emulator.advance(61)
    sagemaker.create_endpoint(**endpoint)
    assert sagemaker.describe_endpoint(EndpointName="reads")["EndpointStatus"] == "Creating"

    lagging_emulator.advance(3600)
    lagging_emulator.settled("reads")
    sagemaker.create_endpoint_config(**{**config, "EndpointConfigName": "next"})
    refusal = _refusal(sagemaker.update_endpoint, EndpointName="reads", EndpointConfigName="next")
    assert refusal == nowhere.replace("config/reads", "config/next")
    sagemaker.delete_endpoint_config(EndpointConfigName="next")


def test_tag_index_lags_behind_creates_updates_and_deletes(lagging_emulator: Emulated, role: str) -> None:
    sagemaker, name = lagging_emulator.client("sagemaker"), "model/index"
    settings = {"ExecutionRoleArn": role, "PrimaryContainer": {"Image": IMAGE}}
    arn = sagemaker.create_model(ModelName="index", Tags=TAGS, **settings)["ModelArn"]
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == TAGS
    lagging_emulator.advance(290)
    assert name not in _indexed(lagging_emulator)
    lagging_emulator.advance(20)
    assert _indexed(lagging_emulator)[name] == "chat"
    sagemaker.add_tags(ResourceArn=arn, Tags=[{**TAGS[0], "Value": "other"}])
    assert _indexed(lagging_emulator)[name] == "chat"
    lagging_emulator.advance(310)
    assert _indexed(lagging_emulator)[name] == "other"
    sagemaker.delete_model(ModelName="index")
    assert _indexed(lagging_emulator)[name] == "other"
    lagging_emulator.advance(310)
    assert name not in _indexed(lagging_emulator)


def test_lag_option_takes_seconds_for_all_or_per_kind() -> None:
    assert parse_lag("0") == Lag()
    assert parse_lag("2.5") == Lag(tags=2.5, reads=2.5, roles=2.5)
    assert parse_lag("tags=300,roles=1") == Lag(tags=300, roles=1)
    for wrong in ("", "-1", "nan", "inf", "tags", "tags=", "names=1", "tags=1,tags=2"):
        with pytest.raises(UsageRefused, match="--lag"):
            parse_lag(wrong)
