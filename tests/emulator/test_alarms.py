"""Alarms that notify SNS topics, their limits, and their tags in the tag search."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.emulator_process import Emulated

ALARM: dict[str, Any] = {
    "Namespace": "mine",
    "MetricName": "m",
    "Statistic": "Sum",
    "Period": 60,
    "EvaluationPeriods": 3,
    "Threshold": 1.0,
    "ComparisonOperator": "GreaterThanThreshold",
}


def queue_of(aws: Emulated, name: str) -> tuple[str, str]:
    """A topic, and the address of a queue that it delivers to."""
    topic = aws.client("sns").create_topic(Name=name)["TopicArn"]
    sqs = aws.client("sqs")
    queue = sqs.create_queue(QueueName=name)["QueueUrl"]
    found = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]
    aws.client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=found["QueueArn"])
    return topic, queue


def received(aws: Emulated, queue: str) -> list[dict[str, Any]]:
    found = aws.client("sqs").receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", [])
    return [json.loads(json.loads(each["Body"])["Message"]) for each in found]


def test_each_change_of_state_notifies_the_topic_of_that_state(aws: Emulated) -> None:
    topic, queue = queue_of(aws, "on-call")
    watch = aws.client("cloudwatch")
    watch.put_metric_alarm(
        AlarmName="loud", AlarmDescription="words", AlarmActions=[topic], OKActions=[topic], **ALARM
    )
    for state in ("ALARM", "ALARM", "OK"):
        watch.set_alarm_state(AlarmName="loud", StateValue=state, StateReason="a test")
    found = received(aws, queue)
    assert [(each["OldStateValue"], each["NewStateValue"]) for each in found] == [
        ("INSUFFICIENT_DATA", "ALARM"),
        ("ALARM", "OK"),
    ]
    assert {(each["AlarmName"], each["AlarmDescription"]) for each in found} == {("loud", "words")}


def test_disabled_alarm_and_absent_topic_send_no_notification(aws: Emulated) -> None:
    topic, queue = queue_of(aws, "silent")
    watch = aws.client("cloudwatch")
    watch.put_metric_alarm(AlarmName="muted", AlarmActions=[topic], **ALARM)
    watch.disable_alarm_actions(AlarmNames=["muted"])
    watch.set_alarm_state(AlarmName="muted", StateValue="ALARM", StateReason="a test")
    assert received(aws, queue) == []
    watch.set_alarm_state(AlarmName="muted", StateValue="OK", StateReason="a test")
    watch.enable_alarm_actions(AlarmNames=["muted"])
    watch.set_alarm_state(AlarmName="muted", StateValue="ALARM", StateReason="a test")
    assert [each["NewStateValue"] for each in received(aws, queue)] == ["ALARM"]
    watch.put_metric_alarm(AlarmName="lost", AlarmActions=[f"{topic}-absent"], **ALARM)
    watch.set_alarm_state(AlarmName="lost", StateValue="ALARM", StateReason="a test")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"Period": 45}, "multiple of 60"),
        ({"ExtendedStatistic": "p99"}, "either Statistic or ExtendedStatistic"),
        ({"DatapointsToAlarm": 4}, "at most EvaluationPeriods"),
        ({"Period": 60, "EvaluationPeriods": 1441}, "a day or a week"),
        ({"Period": 86400, "EvaluationPeriods": 8}, "a day or a week"),
    ],
)
def test_invalid_alarm_is_refused(aws: Emulated, changed: dict[str, Any], words: str) -> None:
    with pytest.raises(ClientError, match=words):
        aws.client("cloudwatch").put_metric_alarm(AlarmName="bad", **{**ALARM, **changed})


def test_tags_are_those_of_the_creation_and_are_searched(aws: Emulated) -> None:
    watch, search = aws.client("cloudwatch"), aws.client("resourcegroupstaggingapi")
    watch.put_metric_alarm(AlarmName="tagged", Tags=[{"Key": "of", "Value": "me"}], **ALARM)
    watch.put_metric_alarm(AlarmName="tagged", Tags=[{"Key": "of", "Value": "you"}], **ALARM)
    arn = watch.describe_alarms(AlarmNames=["tagged"])["MetricAlarms"][0]["AlarmArn"]
    for types in (["cloudwatch:alarm"], ["cloudwatch"], []):
        found = search.get_resources(TagFilters=[{"Key": "of"}], ResourceTypeFilters=types)
        assert [each["ResourceARN"] for each in found["ResourceTagMappingList"]] == [arn]
        assert found["ResourceTagMappingList"][0]["Tags"] == [{"Key": "of", "Value": "me"}]
    assert (
        search.get_resources(ResourceTypeFilters=["sagemaker:model"], TagFilters=[{"Key": "of"}])[
            "ResourceTagMappingList"
        ]
        == []
    )
    watch.delete_alarms(AlarmNames=["tagged"])
    assert search.get_resources(TagFilters=[{"Key": "of"}])["ResourceTagMappingList"] == []
