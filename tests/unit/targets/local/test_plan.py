"""Whatever is seen, the plan's end is what the spec says: planned again from there, nothing is left to do."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.domain.artifact import Artifact
from lmi_deploy.domain.dataclass_json import dump
from lmi_deploy.domain.observed import LocalHeld, LocalObserved, SeenServer
from lmi_deploy.domain.plan import (
    Action,
    AwaitReady,
    BuildEnvironment,
    FetchWeights,
    InstallEngine,
    Plan,
    ProbeServer,
    PutArtifact,
    RemoveArtifact,
    RemoveDeployment,
    StartServer,
    StopServer,
    TakeAddress,
    key,
)
from lmi_deploy.domain.record import DeploymentRef, Generation, Intent, Record
from lmi_deploy.domain.spec import Spec
from lmi_deploy.planning.render import render
from lmi_deploy.planning.resolve import resolve
from lmi_deploy.targets.local.plan import server_name, summary
from lmi_deploy.targets.plan import diff, teardown
from tests.support.factories import facts, recipe
from tests.support.hypothesis_settings import examples

REF = DeploymentRef(name="m", target="local")
PORT, OTHER_PORT = 8080, 8090
SPEC = resolve(recipe(), facts())
ARTIFACT = render(SPEC)
WANTED = server_name(SPEC, ARTIFACT)
OTHERS = ("old0", "old1")
MANY = examples(300)
PHASES = st.sampled_from(["starting", "loading", "ready", "failed", "draining", "gone"])


def generation(server: str, port: int) -> Generation:
    told = dict(summary(SPEC, ARTIFACT))
    return Generation(
        server=server,
        spec="s",
        artifact="a",
        runtime="embedded",
        host="127.0.0.1",
        port=port,
        summary=told,
        since="",
    )


def _at(name: str, port: int) -> int:
    """The wanted server is at its own address or at any free port, never at another generation's address."""
    return 9002 if (name, port) == (WANTED, OTHER_PORT) else port


@st.composite
def worlds(draw: st.DrawFn) -> LocalObserved:
    """Any mixture of servers in any phase, artifacts, and a record or none; at most one server holds a port."""
    ports = draw(st.permutations([PORT, OTHER_PORT, 9001]))
    names = draw(st.lists(st.sampled_from([WANTED, *OTHERS]), unique=True))
    servers = tuple(
        SeenServer(
            server=name, phase=phase, pid=1, port=_at(name, port) if phase in ("loading", "ready") else None
        )
        for name, port, phase in zip(names, ports, draw(st.tuples(PHASES, PHASES, PHASES)), strict=False)
    )
    current = draw(st.none() | st.sampled_from([WANTED, *OTHERS]))
    # The wanted server's name has its port in it: it was never recorded at another.
    recorded = PORT if current == WANTED else draw(st.sampled_from([PORT, OTHER_PORT]))
    probed = ProbeServer(server=WANTED, probe=SPEC.probe)
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


HELD = st.builds(
    LocalHeld, engine=st.booleans(), environment=st.booleans(), missing_weights=st.sampled_from([0, 5])
)


def after(plan: Plan, seen: LocalObserved, held: LocalHeld) -> tuple[LocalObserved, LocalHeld]:  # noqa: C901 (matched to the end)
    """The world once every action has had its effect; an action that could not be carried out is an error here."""
    servers = {server.server: server for server in seen.servers}
    artifacts, exists = set(seen.artifacts), seen.exists
    for action in plan.actions:
        match action:
            case InstallEngine():
                held = replace(held, engine=True)
            case BuildEnvironment():
                held = replace(held, environment=True)
            case FetchWeights():
                held = replace(held, missing_weights=0)
            case PutArtifact(artifact=digest):
                artifacts.add(digest)
            case StartServer(server=name, artifact=digest, port=port):
                assert held == LocalHeld(engine=True, environment=True, missing_weights=0)
                assert digest in artifacts
                assert servers.get(name) is None
                assert port not in {s.port for s in servers.values() if s.phase != "gone"}
                servers[name] = SeenServer(server=name, phase="loading", pid=1, port=port or 9999)
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
    world = replace(seen, exists=exists, servers=tuple(servers.values()), artifacts=tuple(artifacts))
    return world, held


def settled(seen: LocalObserved, spec: Spec, artifact: Artifact) -> LocalObserved:
    name = server_name(spec, artifact)
    record = Record(ref=REF, generations=(generation(name, spec.place.port),))
    at = next((s for s in seen.servers if s.port == spec.place.port and s.phase == "ready"), None)
    return replace(seen, record=record, serving=at.server if at else None)


@MANY
@given(worlds(), HELD)
def test_after_the_plan_nothing_is_left_to_do(seen: LocalObserved, held: LocalHeld) -> None:
    plan = diff(SPEC, ARTIFACT, seen, held)
    world, held = after(plan, seen, held)
    world = settled(world, SPEC, ARTIFACT)
    assert [server.server for server in world.servers] == [WANTED] == [world.serving]
    assert world.artifacts == (ARTIFACT.digest,) or seen.serving == WANTED
    assert diff(SPEC, ARTIFACT, world, held).empty


@MANY
@given(worlds(), HELD)
def test_what_serves_is_not_touched_before_the_new_one_has_answered(
    seen: LocalObserved, held: LocalHeld
) -> None:
    plan = diff(SPEC, ARTIFACT, seen, held)
    probed = next((n for n, action in enumerate(plan.actions) if isinstance(action, ProbeServer)), 0)
    early: tuple[Action, ...] = plan.actions[:probed]
    assert StopServer(server=seen.serving or "") not in early
    assert not [action for action in early if isinstance(action, TakeAddress)]


@MANY
@given(worlds(), HELD)
def test_every_action_has_a_key_of_its_own(seen: LocalObserved, held: LocalHeld) -> None:
    for plan in (diff(SPEC, ARTIFACT, seen, held), teardown(seen)):
        keys = [key(action) for action in plan.actions]
        assert len({*keys}) == len(keys)


@MANY
@given(worlds(), HELD)
def test_after_a_teardown_nothing_is_there(seen: LocalObserved, held: LocalHeld) -> None:
    world, _ = after(teardown(seen), seen, held)
    assert not world.exists
    assert teardown(world).empty
    assert isinstance(teardown(seen).actions[-1], RemoveDeployment)


def test_nothing_there_is_nothing_to_tear_down() -> None:
    assert teardown(LocalObserved(ref=REF, exists=False, record=None)).empty


def test_a_change_is_told_by_what_appears_and_what_goes() -> None:
    before = replace(generation("old0", PORT), summary={"model": "org/other", "option.dtype": "bf16"})
    seen = LocalObserved(
        ref=REF,
        exists=True,
        record=Record(ref=REF, generations=(before,)),
        servers=(SeenServer(server="old0", phase="ready", pid=1, port=PORT),),
        serving="old0",
    )
    plan = diff(SPEC, ARTIFACT, seen, LocalHeld(engine=True, environment=True, missing_weights=0))
    told = {change.field: (change.before, change.after) for change in plan.changes}
    assert told["model"] == ("org/other", "org/m")
    assert told["option.dtype"] == ("bf16", "")
    assert told["option.predict_timeout"] == ("", "60")
