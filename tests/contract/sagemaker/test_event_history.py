"""The port EventHistory: who put which config into service, by CloudTrail's event history."""

from __future__ import annotations

import pytest

from lmi_deploy.aws.event_history import CloudTrailEvents
from lmi_deploy.errors import AccessError
from lmi_deploy.ports.event_history import EndpointCall
from tests.support.emulator_process import ACCOUNT, Emulated
from tests.support.sagemaker_fixtures import Recorder

ROOT = f"arn:aws:iam::{ACCOUNT}:root"
DELIVERY = 400
"""Seconds after which the log has an event."""


@pytest.fixture
def chat(aws: Emulated) -> str:
    """An endpoint that was deleted, created again, updated and scaled, and a neighbour whose name begins like it."""
    uri = aws.upload("weights/log", {"config.json": "{}"})
    aws.model("logged", uri)
    for number, instance in ((1, "ml.g5.xlarge"), (2, "ml.g5.2xlarge")):
        aws.endpoint_config(f"logged-{number}", "logged", InstanceType=instance, InitialInstanceCount=number)
    sagemaker = aws.client("sagemaker")
    aws.endpoint("logged", "logged-2")
    aws.settled("logged")
    sagemaker.delete_endpoint(EndpointName="logged")
    aws.wait_until_deleted("logged")
    aws.endpoint("logged", "logged-1")
    aws.endpoint("logged-too", "logged-1")
    aws.settled("logged")
    sagemaker.update_endpoint(EndpointName="logged", EndpointConfigName="logged-2")
    aws.settled("logged")
    wanted = [{"VariantName": "AllTraffic", "DesiredInstanceCount": 3}]
    sagemaker.update_endpoint_weights_and_capacities(
        EndpointName="logged", DesiredWeightsAndCapacities=wanted
    )
    with pytest.raises(sagemaker.exceptions.ClientError):
        sagemaker.update_endpoint(EndpointName="logged", EndpointConfigName="no-such-config")
    return "logged"


def summary(call: EndpointCall) -> tuple[str, tuple[str, ...], int]:
    return call.config, call.types, call.count


def test_changes_are_listed_since_the_endpoint_was_created(
    aws: Emulated, recorder: Recorder, chat: str
) -> None:
    events = CloudTrailEvents(recorder.access())
    aws.advance(DELIVERY)
    found = events.calls(chat)
    assert [summary(call) for call in found] == [
        ("logged-1", ("ml.g5.xlarge",), 1),
        ("logged-2", ("ml.g5.2xlarge",), 2),
        ("", (), 3),
    ]
    assert {(call.by, call.is_ours) for call in found} == {(ROOT, False)}
    assert [call.at for call in found] == sorted(call.at for call in found)
    aws.advance(91 * 86_400)
    assert events.calls(chat) == ()


def test_denied_log_is_reported(aws: Emulated, recorder: Recorder) -> None:
    response = {"answer": {"status": 400, "body": '{"__type": "AccessDeniedException", "message": ""}'}}
    aws.fault({"headers": {"X-Amz-Target": "LookupEvents$"}, "do": response})
    with pytest.raises(AccessError, match="may not cloudtrail:LookupEvents"):
        CloudTrailEvents(recorder.access()).calls("logged")
