"""Target local: one server process serves; a changed spec is a second one that takes its address."""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.domain.artifact import Artifact
from lmi_deploy.domain.environment_digests import environment_summary
from lmi_deploy.domain.naming import digest, short
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
)
from lmi_deploy.domain.record import Generation
from lmi_deploy.domain.spec import Spec
from lmi_deploy.engines.engine import ENGINE_PACKAGE_VERSION
from lmi_deploy.planning.changes import changes, probe_of, told_of_model, told_of_probe, told_of_properties
from lmi_deploy.targets.local.runtime_selection import NEEDS, hands_over

ALIVE = frozenset({"starting", "loading", "ready"})
PATIENCE = "container_startup"
"""In a summary: the seconds that its server may take to load the model."""
_PATIENCE = 600
"""Where an older record does not say."""


def server_name(spec: Spec, artifact: Artifact) -> str:
    """One generation, named by all that makes its answers and its address what they are."""
    place = spec.machine
    chosen = [artifact.digest, spec.model.commit, spec.weights.selection, spec.environment]
    image = [place.image] if place.image else []
    return short(digest([*chosen, place.runtime, place.host, place.port, list(place.environment), *image]))


def diff(spec: Spec, artifact: Artifact, observed: LocalObserved, held: LocalHeld) -> Plan:
    """Refuses nothing: whatever lies in a deployment's own folder is ours."""
    wanted = server_name(spec, artifact)
    actions: tuple[Action, ...] = ()
    if observed.serving != wanted:
        actions = (*_prepare(spec, artifact, observed, held), *_bring_up(spec, artifact, observed, wanted))
    swept = _sweep(observed, keep_server=wanted, keep_artifact=artifact.digest)
    actions += tuple(action for action in swept if action not in actions)
    return Plan(
        deployment=spec.name,
        actions=actions,
        changes=changes(_current(observed), summary(spec, artifact)) if actions else (),
        figures=_figures(spec, held),
    )


def teardown(observed: LocalObserved) -> Plan:
    """Everything of the deployment, the serving process first; empty when nothing of it is there."""
    if not (observed.exists or observed.servers):
        return Plan(deployment=observed.ref.name, actions=())
    actions = tuple(_sweep(observed, keep_server=None, keep_artifact=None))
    return Plan(deployment=observed.ref.name, actions=(*actions, RemoveDeployment(name=observed.ref.name)))


def waiting(observed: LocalObserved, *, timeout: int | None) -> tuple[Plan, Generation | None]:
    """The end of an `up` whose server is on its way: the wait, the proof, the address, and the old generation's end."""
    coming = observed.record.coming if observed.record else None
    probe = probe_of(coming.summary) if coming else None
    holder = _server(observed, observed.serving)
    shared = coming is not None and holder is not None and holder.port == coming.port
    if (
        coming is None
        or probe is None
        or not _usable(observed, coming.server, None if shared else coming.port)
    ):
        return Plan(deployment=observed.ref.name, actions=()), None
    patience = timeout or int(coming.summary.get(PATIENCE, 0)) or _PATIENCE
    actions: list[Action] = [AwaitReady(server=coming.server, timeout=patience)]
    actions.append(ProbeServer(server=coming.server, probe=probe))
    if holder is not None and shared and holder.server != coming.server:
        if not hands_over(coming.runtime, holder.runtime):  # to load it again takes the recipe: `lmi up`
            return Plan(deployment=observed.ref.name, actions=()), None
        take = TakeAddress(server=coming.server, host=coming.host, port=coming.port, previous=holder.server)
        actions.append(take)
    actions += _sweep(observed, keep_server=coming.server, keep_artifact=coming.artifact)
    return Plan(deployment=observed.ref.name, actions=tuple(actions)), coming


def _prepare(spec: Spec, artifact: Artifact, observed: LocalObserved, held: LocalHeld) -> Iterator[Action]:
    needs = NEEDS[spec.machine.runtime]
    if not held.engine and "engine" in needs:
        yield InstallEngine(version=ENGINE_PACKAGE_VERSION)
    if not held.environment and "environment" in needs:
        yield BuildEnvironment(
            environment=spec.environment,
            packages=spec.engine.packages,
            requirements=spec.inputs.requirements.decode(),
        )
    if held.missing_weights:
        yield FetchWeights(
            model_id=spec.model.model_id,
            commit=spec.model.commit,
            files=spec.weights.files,
            missing=held.missing_weights,
        )
    if artifact.digest not in observed.artifacts:
        yield PutArtifact(artifact=artifact.digest, files=tuple(f.path for f in artifact.files))


def _bring_up(spec: Spec, artifact: Artifact, observed: LocalObserved, wanted: str) -> Iterator[Action]:
    place = spec.machine
    holder = _server(observed, observed.serving)
    shared = holder is not None and holder.port == place.port
    reused = _usable(observed, wanted, None if shared else place.port)
    # What an earlier `up` left goes first: it may hold the address, and the memory that the new one needs.
    kept = {observed.serving, wanted if reused else None}
    yield from (StopServer(server=server.server) for server in observed.servers if server.server not in kept)
    if not reused:
        yield StartServer(
            server=wanted,
            artifact=artifact.digest,
            environment=spec.environment,
            engine=ENGINE_PACKAGE_VERSION,
            runtime=place.runtime,
            host=place.host,
            port=0 if shared else place.port,
        )
    yield AwaitReady(server=wanted, timeout=place.startup_timeout)
    yield ProbeServer(server=wanted, probe=spec.probe)
    if holder is not None and shared:
        yield TakeAddress(
            server=wanted,
            host=place.host,
            port=place.port,
            previous=holder.server,
            loads_again=not hands_over(place.runtime, holder.runtime),
        )


def _usable(observed: LocalObserved, wanted: str, port: int | None) -> bool:
    """Whether the server is there and need only be waited for: alive, at `port` where it matters, not found silent."""
    present = _server(observed, wanted)
    if present is None or present.phase not in ALIVE:
        return False
    silent = observed.record is not None and observed.record.silent(wanted)
    return not silent and (port is None or present.port in (None, port))


def _sweep(
    observed: LocalObserved, *, keep_server: str | None, keep_artifact: str | None
) -> Iterator[Action]:
    """What is there and no longer wanted. A server that is gone leaves a folder, which goes the same way."""
    for server in observed.servers:
        if server.server != keep_server:
            yield StopServer(server=server.server)
    for found in observed.artifacts:
        if found != keep_artifact:
            yield RemoveArtifact(artifact=found)


def _server(observed: LocalObserved, name: str | None) -> SeenServer | None:
    return next((server for server in observed.servers if server.server == name), None)


def _current(observed: LocalObserved) -> Generation | None:
    """The generation that serves, as its record tells of it."""
    return observed.record.current if observed.record and observed.serving else None


def summary(spec: Spec, artifact: Artifact) -> dict[str, str]:
    """A generation in the words of its recipe: what `status` shows and `invoke` needs."""
    return {
        **told_of_model(spec),
        "artifact": artifact.digest[:10],
        "environment": spec.environment,
        "runtime": spec.machine.runtime,
        **({"image": spec.machine.image} if spec.machine.image else {}),
        "address": f"{spec.machine.host}:{spec.machine.port}",
        PATIENCE: str(spec.machine.startup_timeout),
        **told_of_probe(spec),
        **environment_summary(spec.machine.environment),
        **told_of_properties(spec),
    }


def generation(spec: Spec, artifact: Artifact, *, since: str) -> Generation:
    """What the record keeps of it."""
    place = spec.machine
    return Generation(
        server=server_name(spec, artifact),
        spec=spec.digest,
        artifact=artifact.digest,
        runtime=place.runtime,
        host=place.host,
        port=place.port,
        summary=dict(summary(spec, artifact)),
        since=since,
    )


def _figures(spec: Spec, held: LocalHeld) -> tuple[tuple[str, str], ...]:
    return (
        ("weights", f"{spec.weights.size}"),
        ("to fetch", f"{held.missing_weights}"),
        ("device", spec.machine.device),
        ("device memory", f"{spec.machine.device_memory}"),
    )
