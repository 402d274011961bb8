"""Every status of an endpoint has words of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lmi_deploy.domain.observed import CloudObserved
from lmi_deploy.domain.record import DeploymentRef, Generation, Intent, Record
from lmi_deploy.domain.sagemaker.settings import SeenEndpoint
from lmi_deploy.targets.status import judge

REF = DeploymentRef(name="m", target="sagemaker")
GENERATION = Generation(
    server="m-1", spec="s", artifact="a", runtime="sagemaker", host="r", port=0, summary={}, since=""
)
RECORD = Record(ref=REF, generations=(GENERATION,))
STATUSES = {
    "Creating": ("starting", "being created"),
    "Updating": ("starting", "being updated to m-2; m-1 answers meanwhile"),
    "SystemUpdating": ("in-step", "AWS is maintaining"),
    "RollingBack": ("drifted", "being rolled back to m-1"),
    "InService": ("in-step", ""),
    "OutOfService": ("failed", "out of service and answers nothing"),
    "Deleting": ("drifted", "is being deleted"),
    "Failed": ("failed", "the endpoint failed"),
    "UpdateRollbackFailed": ("failed", "its roll-back, too"),
    "NeverHeardOf": ("drifted", "NeverHeardOf, which this lmi does not know"),
}


def seen(status: str, *, config: str = "m-1", reason: str = "") -> CloudObserved:
    endpoint = SeenEndpoint(name="m", arn="a", status=status, config=config, pending="m-2", reason=reason)
    return CloudObserved(ref=REF, record=RECORD, endpoint=endpoint)


@pytest.mark.parametrize("status", STATUSES)
def test_a_status_in_words(status: str) -> None:
    standing, why = judge(seen(status))
    assert (standing, STATUSES[status][1] in why) == (STATUSES[status][0], True)


@pytest.mark.parametrize("status", ["Failed", "OutOfService", "RollingBack", "UpdateRollbackFailed"])
def test_awss_own_reason_is_told(status: str) -> None:
    assert "did not pass the ping" in judge(seen(status, reason="did not pass the ping"))[1]


def test_an_update_that_was_rolled_back_is_said_with_what_serves() -> None:
    standing, why = judge(seen("InService", config="m-0", reason="no capacity"))
    assert standing == "drifted"
    assert why == "m-0 serves, the record says m-1 (no capacity)"


@pytest.mark.parametrize(("sent", "said"), [(True, "rolled back"), (False, "did not get as far")])
def test_what_was_being_brought_and_does_not_serve_is_said(*, sent: bool, said: str) -> None:
    begun = Intent(action="UpdateEndpoint", names={"config": "m-2"}, outcome="begun")
    coming = replace(RECORD, coming=replace(GENERATION, server="m-2"), intents=(begun,) if sent else ())
    standing, why = judge(replace(seen("InService", reason="no ping"), record=coming))
    assert (standing, said in why, "m-1 serves" in why) == ("drifted", True, True)
    assert ("no ping" in why) == sent


def test_what_is_there_without_an_endpoint() -> None:
    nothing = CloudObserved(ref=REF, record=None, endpoint=None)
    assert judge(nothing)[0] == "absent"
    assert judge(replace(nothing, record=RECORD))[0] == "drifted"
    assert judge(replace(nothing, record=Record(ref=REF)))[0] == "failed"
    assert judge(replace(nothing, stranger="m: not ours")) == ("absent", "m: not ours")


def test_what_serves_without_a_settled_record() -> None:
    there = seen("InService")
    assert "no record" in judge(replace(there, record=None))[1]
    assert "did not finish" in judge(replace(there, record=Record(ref=REF)))[1]
