"""The ports AlarmsApi and Topics on the emulator's CloudWatch and SNS."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from lmi_deploy.aws.alarms import CloudWatchAlarms
from lmi_deploy.aws.resource_tags import AwsResourceTags
from lmi_deploy.aws.topics import SnsTopics
from lmi_deploy.domain.sagemaker.alarm_settings import OTHER_METRIC, AlarmRule, EndpointAlarms, alarm_names
from lmi_deploy.domain.sagemaker.resource_settings import TAG
from lmi_deploy.errors import NotFound, Refused
from tests.support.emulator_process import Emulated
from tests.support.sagemaker_fixtures import Recorder

TOPIC = "arn:aws:sns:us-east-1:123456789012:on-call"
TAGS = ((TAG, "watched"), ("team", "search"))
ERRORS = AlarmRule(
    kind="errors-5xx",
    threshold=2.5,
    statistic="Average",
    period=60,
    evaluation_periods=5,
    datapoints_to_alarm=3,
)
LATENCY = replace(ERRORS, kind="latency", threshold=8000.0, statistic="p99.5", period=300)
MEMORY = replace(ERRORS, kind="memory", threshold=90.0, statistic="Maximum", datapoints_to_alarm=5)
ALL = EndpointAlarms(topic=TOPIC, notify_ok=True, rules=(ERRORS, LATENCY, MEMORY))


@pytest.fixture
def alarms(recorder: Recorder) -> Iterator[CloudWatchAlarms]:
    port = CloudWatchAlarms(recorder.access())
    yield port
    port.remove("watched")


def test_written_are_read_back_equal(aws: Emulated, recorder: Recorder, alarms: CloudWatchAlarms) -> None:
    assert alarms.read("watched") is None
    alarms.write("watched", ALL, TAGS)
    found = alarms.read("watched")
    assert found is not None
    assert found.settings == ALL
    assert found.states == tuple((rule.kind, "INSUFFICIENT_DATA") for rule in ALL.rules)
    [errors] = aws.client("cloudwatch").describe_alarms(AlarmNames=["watched-alarm-errors-5xx"])[
        "MetricAlarms"
    ]
    assert (errors["Threshold"], errors["MetricName"]) == (0.025, "Invocation5XXErrors")
    assert errors["AlarmActions"] == errors["OKActions"] == [TOPIC]
    tagged = AwsResourceTags(recorder.access()).of("watched")
    assert [(each.kind, each.name) for each in tagged] == [
        ("alarm", name) for name in sorted(alarm_names("watched"))
    ]
    assert tagged[0].tag("team") == "search"


def test_written_again_they_are_replaced_and_the_others_deleted(alarms: CloudWatchAlarms) -> None:
    alarms.write("watched", ALL, TAGS)
    fewer = EndpointAlarms(topic=f"{TOPIC}2", notify_ok=False, rules=(replace(ERRORS, threshold=1.0),))
    alarms.write("watched", fewer, ())
    found = alarms.read("watched")
    assert found is not None
    assert found.settings == fewer
    alarms.remove("watched")
    alarms.remove("watched")
    assert alarms.read("watched") is None


def test_changes_by_others_are_seen(aws: Emulated, alarms: CloudWatchAlarms) -> None:
    alarms.write("watched", ALL, TAGS)
    client = aws.client("cloudwatch")
    client.disable_alarm_actions(AlarmNames=["watched-alarm-memory"])
    [latency] = client.describe_alarms(AlarmNames=["watched-alarm-latency"])["MetricAlarms"]
    kept = ("AlarmName", "AlarmDescription", "ExtendedStatistic", "Dimensions", "Namespace", "Period")
    client.put_metric_alarm(
        **{key: latency[key] for key in kept},
        MetricName="OverheadLatency",
        EvaluationPeriods=2,
        Threshold=1.0,
        ComparisonOperator="GreaterThanThreshold",
        AlarmActions=[f"{TOPIC}2"],
    )
    found = alarms.read("watched")
    assert found is not None
    assert dict(found.states)["memory"] == "disabled"
    assert found.settings.topic == f"{TOPIC}, {TOPIC}2"
    assert found.settings.notify_ok is False
    changed = next(rule for rule in found.settings.rules if rule.kind == "latency")
    assert (changed.statistic, changed.datapoints_to_alarm) == (OTHER_METRIC, 2)


def test_foreign_alarm_of_the_name_stays(aws: Emulated, alarms: CloudWatchAlarms) -> None:
    client, name = aws.client("cloudwatch"), "foreign-alarm-memory"
    client.put_metric_alarm(
        AlarmName=name,
        Namespace="theirs",
        MetricName="m",
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=1.0,
        ComparisonOperator="GreaterThanThreshold",
    )
    assert alarms.read("foreign") is None
    with pytest.raises(Refused, match=f"alarm {name}: it exists"):
        alarms.write("foreign", ALL, TAGS)
    alarms.remove("foreign")
    found = client.describe_alarms(AlarmNamePrefix="foreign-")["MetricAlarms"]
    assert [(each["AlarmName"], each["Namespace"]) for each in found] == [(name, "theirs")]
    client.delete_alarms(AlarmNames=[name])


def test_topic_is_absent_or_has_subscriptions(aws: Emulated, recorder: Recorder) -> None:
    topics, client = SnsTopics(recorder.access()), aws.client("sns")
    with pytest.raises(NotFound):
        topics.subscriptions("arn:aws:sns:us-east-1:123456789012:absent")
    topic = client.create_topic(Name="present")["TopicArn"]
    assert topics.subscriptions(topic) == 0
    queue = aws.client("sqs").create_queue(QueueName="told")["QueueUrl"]
    arn = aws.client("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]
    client.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn["QueueArn"])
    assert topics.subscriptions(topic) == 1
