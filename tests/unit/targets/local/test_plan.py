"""From any observed state the plan reaches the spec: planned again from there, nothing is left to do."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.domain.dataclass_json import dump
from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.local_actions import (
    AwaitReady,
    BuildEnvironment,
    FetchWeights,
    InstallEngine,
    ProbeServer,
    PutArtifact,
    RemoveArtifact,
    RemoveDeployment,
    StartServer,
    StopServer,
    TakeAddress,
)
from lmi_deploy.domain.observed_state import LocalInventory, LocalObserved, ObservedServer
from lmi_deploy.domain.plan import Action, Plan
from lmi_deploy.domain.record import DeploymentRef, Generation, Intent, Record
from lmi_deploy.planning.render import render
from lmi_deploy.targets.local.plan import diff, server_name, serving, teardown
from tests.support.factories import facts, recipe, resolve
from tests.support.hypothesis_settings import examples

REF = DeploymentRef(name="m", target="local")
PORT, OTHER_PORT = 8080, 8090
SPEC = resolve(recipe(), facts())
ARTIFACT = render(SPEC)
DESIRED = server_name(SPEC, ARTIFACT)
OTHERS = ("old0", "old1")
MANY = examples(300)
PHASES = st.sampled_from(["starting", "loading", "ready", "failed", "draining", "gone"])


def generation(server: str, port: int) -> Generation:
    return Generation(
        server=server,
        spec="s",
        artifact="a",
        runtime="embedded",
        host="127.0.0.1",
        port=port,
        serving=serving(SPEC, ARTIFACT),
        since="",
    )


def _at(name: str, port: int) -> int:
    """The desired server is at its own address or at any free port, never at another generation's address."""
    return 9002 if (name, port) == (DESIRED, OTHER_PORT) else port


@st.composite
def observed_states(draw: st.DrawFn) -> LocalObserved:
    """Any combination of servers in any phase, artifacts, and a record or none; at most one server holds a
    port."""
    ports = draw(st.permutations([PORT, OTHER_PORT, 9001]))
    names = draw(st.lists(st.sampled_from([DESIRED, *OTHERS]), unique=True))
    servers = tuple(
        ObservedServer(
            server=name, phase=phase, pid=1, port=_at(name, port) if phase in ("loading", "ready") else None
        )
        for name, port, phase in zip(names, ports, draw(st.tuples(PHASES, PHASES, PHASES)), strict=False)
    )
    current = draw(st.none() | st.sampled_from([DESIRED, *OTHERS]))
    # The desired server's name includes its port: it was never recorded at another.
    recorded = PORT if current == DESIRED else draw(st.sampled_from([PORT, OTHER_PORT]))
    probed = ProbeServer(server=DESIRED, probe=SPEC.probe)
    doubt = Intent(action="ProbeServer", names=dump(probed), outcome=None)
    record = Record(
        ref=REF,
        generations=(generation(current, recorded),) if current else (),
        intents=(doubt,) if draw(st.booleans()) else (),
    )
    artifacts = draw(st.lists(st.sampled_from([ARTIFACT.digest, "b" * 64]), unique=True))
    ready = (s.server for s in servers if current and s.phase == "ready" and s.port == recorded)
    return LocalObserved(
        ref=REF,
        exists=True,
        record=record if current or draw(st.booleans()) else None,
        servers=servers,
        artifacts=tuple(artifacts),
        serving=next(ready, None),
    )


INVENTORIES = st.builds(
    LocalInventory, engine=st.booleans(), environment=st.booleans(), missing_weights=st.sampled_from([0, 5])
)


def after(  # noqa: C901 (matched to the end)
    plan: Plan, observed: LocalObserved, inventory: LocalInventory
) -> tuple[LocalObserved, LocalInventory]:
    """The state once every action has had its effect; an action that could not be performed is an error
    here."""
    servers = {server.server: server for server in observed.servers}
    artifacts, exists = set(observed.artifacts), observed.exists
    for action in plan.actions:
        match action:
            case InstallEngine():
                inventory = replace(inventory, engine=True)
            case BuildEnvironment():
                inventory = replace(inventory, environment=True)
            case FetchWeights():
                inventory = replace(inventory, missing_weights=0)
            case PutArtifact(artifact=digest):
                artifacts.add(digest)
            case StartServer(server=name, artifact=digest, port=port):
                assert inventory == LocalInventory(engine=True, environment=True, missing_weights=0)
                assert digest in artifacts
                assert servers.get(name) is None
                assert port not in {s.port for s in servers.values() if s.phase != "gone"}
                servers[name] = ObservedServer(server=name, phase="loading", pid=1, port=port or 9999)
            case AwaitReady(server=name):
                assert servers[name].phase in ("starting", "loading", "ready")
                servers[name] = replace(servers[name], phase="ready", port=servers[name].port or PORT)
            case ProbeServer(server=name):
                assert servers[name].phase == "ready"
            case TakeAddress(server=name, port=port, previous=previous):
                assert (servers[previous].phase, servers[previous].port) == ("ready", port)
                servers[name] = replace(servers[name], port=port)
                servers[previous] = replace(servers[previous], phase="draining", port=None)
            case StopServer(server=name):
                del servers[name]
            case RemoveArtifact(artifact=digest):
                artifacts.remove(digest)
            case RemoveDeployment():
                assert not servers
                assert not artifacts
                exists = False
    account = replace(observed, exists=exists, servers=tuple(servers.values()), artifacts=tuple(artifacts))
    return account, inventory


def settled(observed: LocalObserved, spec: Spec, artifact: Artifact) -> LocalObserved:
    name = server_name(spec, artifact)
    record = Record(ref=REF, generations=(generation(name, spec.place.port),))
    at = next((s for s in observed.servers if s.port == spec.place.port and s.phase == "ready"), None)
    return replace(observed, record=record, serving=at.server if at else None)


@MANY
@given(observed_states(), INVENTORIES)
def test_applied_plan_leaves_nothing_to_do(observed: LocalObserved, inventory: LocalInventory) -> None:
    plan = diff(SPEC, ARTIFACT, observed, inventory)
    account, inventory = after(plan, observed, inventory)
    account = settled(account, SPEC, ARTIFACT)
    assert [server.server for server in account.servers] == [DESIRED] == [account.serving]
    assert account.artifacts == (ARTIFACT.digest,) or observed.serving == DESIRED
    assert diff(SPEC, ARTIFACT, account, inventory).empty


@MANY
@given(observed_states(), INVENTORIES)
def test_serving_server_is_untouched_until_the_new_one_answers(
    observed: LocalObserved, inventory: LocalInventory
) -> None:
    plan = diff(SPEC, ARTIFACT, observed, inventory)
    probed = next((n for n, action in enumerate(plan.actions) if isinstance(action, ProbeServer)), 0)
    early: tuple[Action, ...] = plan.actions[:probed]
    assert StopServer(server=observed.serving or "") not in early
    assert not [action for action in early if isinstance(action, TakeAddress)]


@MANY
@given(observed_states(), INVENTORIES)
def test_every_action_of_a_plan_has_a_unique_key(observed: LocalObserved, inventory: LocalInventory) -> None:
    for plan in (diff(SPEC, ARTIFACT, observed, inventory), teardown(observed)):
        keys = [action.key for action in plan.actions]
        assert len({*keys}) == len(keys)


@MANY
@given(observed_states(), INVENTORIES)
def test_teardown_removes_everything(observed: LocalObserved, inventory: LocalInventory) -> None:
    account, _ = after(teardown(observed), observed, inventory)
    assert not account.exists
    assert teardown(account).empty
    assert isinstance(teardown(observed).actions[-1], RemoveDeployment)


def test_teardown_of_nothing_is_empty() -> None:
    assert teardown(LocalObserved(ref=REF, exists=False, record=None)).empty


def test_change_shows_added_changed_and_removed_values() -> None:
    live = generation("old0", PORT)
    other = replace(live.serving, model="org/other", properties=(("option.dtype", "bf16"),))
    before = replace(live, serving=other)
    observed = LocalObserved(
        ref=REF,
        exists=True,
        record=Record(ref=REF, generations=(before,)),
        servers=(ObservedServer(server="old0", phase="ready", pid=1, port=PORT),),
        serving="old0",
    )
    plan = diff(SPEC, ARTIFACT, observed, LocalInventory(engine=True, environment=True, missing_weights=0))
    response = {change.field: (change.before, change.after) for change in plan.changes}
    assert response["model"] == ("org/other", "org/m")
    assert response["option.dtype"] == ("bf16", "")
    assert response["option.predict_timeout"] == ("", "60")
