"""Every status of an endpoint has its own explanation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lmi_deploy.domain.observed_state import CloudObserved
from lmi_deploy.domain.record import DeploymentRef, Generation, Intent, Record
from lmi_deploy.domain.sagemaker.resource_settings import ObservedEndpoint
from lmi_deploy.targets.sagemaker.status import status_of
from tests.support.factories import SAGEMAKER, serving

REF = DeploymentRef(name="m", target="sagemaker")
GENERATION = Generation(
    server="m-1",
    spec="s",
    artifact="a",
    runtime="sagemaker",
    host="r",
    port=0,
    serving=serving(SAGEMAKER),
    since="",
)
RECORD = Record(ref=REF, generations=(GENERATION,))
STATUSES = {
    "Creating": ("starting", "being created"),
    "Updating": ("starting", "being updated to m-2; m-1 still serves"),
    "SystemUpdating": ("in-step", "AWS is maintaining"),
    "RollingBack": ("drifted", "being rolled back to m-1"),
    "InService": ("in-step", ""),
    "OutOfService": ("failed", "out of service and does not answer"),
    "Deleting": ("drifted", "is being deleted"),
    "Failed": ("failed", "the endpoint failed"),
    "UpdateRollbackFailed": ("failed", "its rollback failed"),
    "NeverHeardOf": ("drifted", "NeverHeardOf, which this version of lmi does not know"),
}


def observed(status: str, *, config: str = "m-1", reason: str = "") -> CloudObserved:
    endpoint = ObservedEndpoint(name="m", arn="a", status=status, config=config, pending="m-2", reason=reason)
    return CloudObserved(ref=REF, record=RECORD, endpoint=endpoint)


@pytest.mark.parametrize("status", STATUSES)
def test_endpoint_status_is_explained(status: str) -> None:
    current_status, why = status_of(observed(status))
    assert (current_status, STATUSES[status][1] in why) == (STATUSES[status][0], True)


@pytest.mark.parametrize("status", ["Failed", "OutOfService", "RollingBack", "UpdateRollbackFailed"])
def test_failure_reason_of_aws_is_shown(status: str) -> None:
    assert "did not pass the ping" in status_of(observed(status, reason="did not pass the ping"))[1]


def test_rolled_back_update_shows_the_serving_config() -> None:
    status, why = status_of(observed("InService", config="m-0", reason="no capacity"))
    assert status == "drifted"
    assert why == "m-0 serves, but the record says m-1 (no capacity)"


@pytest.mark.parametrize(("sent", "output"), [(True, "rolled back"), (False, "ended before it updated")])
def test_pending_update_that_does_not_serve_is_explained(*, sent: bool, output: str) -> None:
    started = Intent(action="UpdateEndpoint", names={"config": "m-2"}, outcome="begun")
    pending = replace(RECORD, coming=replace(GENERATION, server="m-2"), intents=(started,) if sent else ())
    status, why = status_of(replace(observed("InService", reason="no ping"), record=pending))
    assert (status, output in why, "m-1 serves" in why) == ("drifted", True, True)
    assert ("no ping" in why) == sent


def test_status_without_an_endpoint() -> None:
    nothing = CloudObserved(ref=REF, record=None, endpoint=None)
    assert status_of(nothing)[0] == "absent"
    assert status_of(replace(nothing, record=RECORD))[0] == "drifted"
    assert status_of(replace(nothing, record=Record(ref=REF)))[0] == "failed"
    assert status_of(replace(nothing, not_owned_reason="m: not ours")) == ("absent", "m: not ours")


def test_serving_without_a_committed_record_is_explained() -> None:
    existing = observed("InService")
    assert "no record" in status_of(replace(existing, record=None))[1]
    assert "did not finish" in status_of(replace(existing, record=Record(ref=REF)))[1]
