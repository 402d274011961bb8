"""Lists are paged, filtered and sorted; tags belong to their resource."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.emulator_process import REGION, Emulated

COUNT = 23


@pytest.fixture(scope="module")
def many(aws: Emulated) -> list[str]:
    uri = aws.upload("artifacts/many", {"serving.properties": "engine=Python\n"})
    role = aws.role()
    names = [f"Model-{number:02d}" for number in range(COUNT)]
    for name in names:
        aws.model(name, uri, role=role)
    return names


def names(response: dict[str, Any]) -> list[str]:
    return [item["ModelName"] for item in response["Models"]]


def test_lists_are_newest_first_in_pages_of_ten(aws: Emulated, many: list[str]) -> None:
    client = aws.client("sagemaker")
    first = client.list_models()
    assert names(first) == many[:-11:-1]
    pages = client.get_paginator("list_models").paginate()
    assert [len(page["Models"]) for page in pages] == [10, 10, 3]


def test_lists_can_be_sorted_and_filtered(aws: Emulated, many: list[str]) -> None:
    client = aws.client("sagemaker")
    requests = {"SortBy": "Name", "SortOrder": "Ascending", "NameContains": "model-1", "MaxResults": 4}
    first = client.list_models(**requests)
    assert names(first) == many[10:14]
    second = client.list_models(**requests, NextToken=first["NextToken"])
    assert names(second) == many[14:18]
    middle = client.describe_model(ModelName=many[20])["CreationTime"]
    assert set(names(client.list_models(CreationTimeAfter=middle))) == set(many[20:])


def test_next_token_of_another_request_is_refused(aws: Emulated, many: list[str]) -> None:
    client = aws.client("sagemaker")
    token = client.list_models(MaxResults=1, NameContains="1")["NextToken"]
    for wrong in ({"NextToken": "nonsense"}, {"NextToken": token, "NameContains": "2"}):
        with pytest.raises(client.exceptions.ClientError, match="ValidationException"):
            client.list_models(**wrong)


def test_tags_are_listed_added_and_checked(aws: Emulated, many: list[str]) -> None:
    client = aws.client("sagemaker")
    arn = f"arn:aws:sagemaker:{REGION}:123456789012:model/{many[0].lower()}"
    assert client.describe_model(ModelName=many[0])["ModelArn"] == arn
    client.add_tags(ResourceArn=arn, Tags=[{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}])
    client.add_tags(ResourceArn=arn, Tags=[{"Key": "a", "Value": "3"}])
    client.delete_tags(ResourceArn=arn, TagKeys=["b"])
    assert client.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "a", "Value": "3"}]
    with pytest.raises(client.exceptions.ClientError, match="Could not find"):
        client.list_tags(ResourceArn=f"{arn}x")
    with pytest.raises(client.exceptions.ClientError, match="aws: prefixed"):
        client.add_tags(ResourceArn=arn, Tags=[{"Key": "aws:x", "Value": ""}])
