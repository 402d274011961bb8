"""The status of a model server by its process, its phase and its record."""

from __future__ import annotations

from typing import Literal

import pytest

from lmi_deploy.domain.observed_state import LocalObserved, ObservedServer
from lmi_deploy.domain.record import DeploymentRef, Generation, Intent, Record
from lmi_deploy.targets.local.status import status_of
from tests.support.factories import LOCAL
from tests.support.factories import serving as serving_record

REF = DeploymentRef(name="m", target="local")
GENERATION = Generation(
    server="s-1",
    spec="s",
    artifact="a",
    runtime="embedded",
    host="h",
    port=8080,
    serving=serving_record(LOCAL),
    since="",
)


def _observed(phase: Literal["starting", "loading", "ready"], record: Record | None) -> LocalObserved:
    server = ObservedServer(server="s-1", phase=phase, pid=7, port=8080)
    return LocalObserved(ref=REF, exists=True, record=record, servers=(server,))


@pytest.mark.parametrize(
    ("phase", "generations", "why"),
    [
        ("starting", (), "the model server is loading the model"),
        ("loading", (), "the model server is loading the model"),
        ("loading", (GENERATION,), "the model server is loading the model"),
        (
            "starting",
            (GENERATION,),
            "its process runs but does not respond: it is restarting, or it hangs",
        ),
    ],
)
def test_status_starting_explains_loading_or_an_unresponsive_server(
    phase: Literal["starting", "loading"], generations: tuple[Generation, ...], why: str
) -> None:
    record = Record(ref=REF, generations=generations)
    assert status_of(_observed(phase, record)) == ("starting", why)


@pytest.mark.parametrize("requested", [False, True])
def test_ready_server_without_a_probe_differs_from_one_whose_probe_failed(
    requested: bool,
) -> None:
    intents = (Intent(action="ProbeServer", names={"server": "s-1"}, outcome=None),) if requested else ()
    status, why = status_of(_observed("ready", Record(ref=REF, coming=GENERATION, intents=intents)))
    assert status == ("failed" if requested else "starting")
    assert ("did not finish" if requested else "no probe was sent yet; `lmi wait` sends it") in why


def test_serving_without_a_record_differs_from_another_generation() -> None:
    serving = LocalObserved(ref=REF, exists=True, record=None, serving="s-1")
    assert status_of(serving) == (
        "drifted",
        "it serves, but its record is missing or unreadable; `lmi up` repairs it",
    )
    other = LocalObserved(
        ref=REF, exists=True, record=Record(ref=REF, generations=(GENERATION,)), serving="s-2"
    )
    assert status_of(other)[1].startswith("it serves another generation than the record says")
