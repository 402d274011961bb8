"""The metadata of every action: records and programs depend on its kind, workflows on its phase."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.domain.action import Phase
from lmi_deploy.domain.plan import Action
from lmi_deploy.domain.sagemaker.actions import SetExpiry
from tests.support.hypothesis_settings import examples

ACTIONS: tuple[type[Action], ...] = get_args(Action)
KINDS = {
    Phase.BOOTSTRAP: {"MakeBucket"},
    Phase.STORE: {
        *("InstallEngine", "BuildEnvironment", "FetchWeights", "CompileModel", "PutArtifact"),
        *("BuildImage", "MakeRepository", "PushImage"),
        *("PackAdapter",),
        *("PushWeights", "RunTransferJob", "RunCompileJob", "StopTransferJob", "StopCompileJob"),
    },
    Phase.CREATE: {"CreateModel", "CreateEndpointConfig"},
    Phase.START: {
        *("StartServer", "CreateEndpoint", "UpdateEndpoint"),
        *("CreateSharedEndpoint", "CreateInferenceComponent", "UpdateInferenceComponent"),
        *("CreateAdapterComponent", "UpdateAdapterComponent"),
    },
    Phase.WAIT: {"AwaitReady", "AwaitService", "AwaitInferenceComponent"},
    Phase.PROBE: {"ProbeServer", "ProbeEndpoint"},
    Phase.SWITCH: {"TakeAddress"},
    Phase.CONFIGURE: {
        *("SetScaling", "RemoveScaling", "TagEndpoint", "UntagEndpoint", "SetExpiry"),
        *("ScheduleDeletion", "RemoveSchedule", "SetInstanceCount", "SetTraffic", "RemoveDashboard"),
        *("AdoptResource", "RemoveForeignScaling", "SetAlarms", "RemoveAlarms"),
        "SetCopyCount",
    },
    Phase.STOP: {
        *("StopServer", "DeleteEndpoint", "DeleteInferenceComponent", "DeleteSharedEndpoint"),
        *("DeleteAdapterComponent",),
    },
    Phase.CLEANUP: {
        *("RemoveArtifact", "RemoveDeployment", "DeleteEndpointConfig", "DeleteModel"),
        *("DeleteLogs", "DeleteWeights", "DeleteImage", "DeleteRepository"),
        *("DeleteAsyncRequests",),
    },
}
BINDING = {
    *("CreateEndpoint", "UpdateEndpoint", "DeleteEndpoint", "RunTransferJob", "RunCompileJob", "SetScaling"),
    *(
        "DeleteRepository",
        "DeleteWeights",
        "DeleteLogs",
        "DeleteAsyncRequests",
        "StartServer",
        "StopServer",
        "TakeAddress",
        "SetInstanceCount",
        "SetTraffic",
    ),
    *("AdoptResource", "CreateSharedEndpoint", "DeleteSharedEndpoint", "SetCopyCount"),
    *("CreateInferenceComponent", "UpdateInferenceComponent", "DeleteInferenceComponent"),
    *("CreateAdapterComponent", "UpdateAdapterComponent", "DeleteAdapterComponent"),
}


def test_action_kinds_and_phases_never_change() -> None:
    assert {phase: {a.kind for a in ACTIONS if a.phase is phase} for phase in Phase} == KINDS


def test_binding_actions_are_exactly_these() -> None:
    assert {action.kind for action in ACTIONS if action.binding} == BINDING


def test_renamed_action_class_can_keep_its_kind() -> None:
    class Renamed(ACTIONS[0]):  # type: ignore[misc,name-defined]
        kind = "InstallEngine"

    assert Renamed.kind == ACTIONS[0].kind


@pytest.mark.parametrize("kind", ACTIONS, ids=lambda kind: kind.kind)
@examples(10)
@given(data=st.data())
def test_every_action_has_a_title_and_a_key(kind: type[Action], data: st.DataObject) -> None:
    action = data.draw(st.from_type(kind))
    assert action.title.split()[0].islower()
    assert action.key.startswith(f"{kind.kind}:")
    assert action.key.endswith(action.subject)
    named = kind.kind.startswith(("Remove", "Delete", "Stop", "Untag"))
    assert action.removes == (named or (isinstance(action, SetExpiry) and not action.ttl)), action.title


def test_action_without_a_time_to_live_removes_the_expiry() -> None:
    assert [SetExpiry(endpoint="e", ttl=ttl).removes for ttl in (0, 60)] == [True, False]
