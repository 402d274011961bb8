"""Target local: one server process serves; for a changed spec a second one is started and takes over its address."""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.djl_serving import ENGINE_VERSION
from lmi_deploy.domain.local_actions import (
    AwaitReady,
    BuildEnvironment,
    BuildImage,
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
from lmi_deploy.domain.local_runtimes import NEEDS
from lmi_deploy.domain.observed_state import LocalInventory, LocalObserved, ObservedServer
from lmi_deploy.domain.plan import Action, Estimate, Plan
from lmi_deploy.domain.record import Generation
from lmi_deploy.domain.serving_record import LocalServing, ServingRecord
from lmi_deploy.domain.settings_digest import digest, short
from lmi_deploy.planning.additional_models import additional_figures
from lmi_deploy.planning.serving_changes import changes, serving_record
from lmi_deploy.targets.local.runtime_selection import supports_handover
from lmi_deploy.targets.local.status import probe_unanswered

ALIVE = frozenset({"starting", "loading", "ready"})
_WAIT_TIMEOUT = 600
"""If an older record has none."""


def server_name(spec: Spec, artifact: Artifact) -> str:
    """The name of one generation, derived from everything that affects its responses and its address."""
    place = spec.machine
    chosen = [artifact.digest, spec.model.commit, spec.weights.selection, spec.environment]
    image = [place.image] if place.image else []
    draft = [spec.weights.draft.weights_name] if spec.weights.draft else []
    return short(
        digest([*chosen, place.runtime, place.host, place.port, list(place.environment), *image, *draft])
    )


def diff(spec: Spec, artifact: Artifact, observed: LocalObserved, inventory: LocalInventory) -> Plan:
    """Refuses nothing: everything in a deployment's own folder belongs to lmi."""
    desired = server_name(spec, artifact)
    actions: tuple[Action, ...] = ()
    if observed.serving != desired:
        actions = (
            *_prepare(spec, artifact, observed, inventory),
            *_start_server(spec, artifact, observed, desired),
        )
    swept = _sweep(observed, keep_server=desired, keep_artifact=artifact.digest)
    actions += tuple(action for action in swept if action not in actions)
    current = observed.record.current if observed.record and observed.serving else None
    return Plan(
        deployment=spec.name,
        actions=actions,
        changes=changes(current, serving(spec, artifact)) if actions else (),
    )


def teardown(observed: LocalObserved, *, logs: bool = False, purge: tuple[str, ...] | None = None) -> Plan:
    """Everything of the deployment, the current server first; empty if nothing of it exists. Logs and weights are
    part of it here.
    """
    if not (observed.exists or observed.servers):
        return Plan(deployment=observed.ref.name, actions=())
    actions = tuple(_sweep(observed, keep_server=None, keep_artifact=None))
    return Plan(deployment=observed.ref.name, actions=(*actions, RemoveDeployment(name=observed.ref.name)))


def wait_plan(observed: LocalObserved, *, timeout: int | None) -> tuple[Plan, Generation | None]:
    """The last part of an `up` whose server is starting: wait, probe, switch the address, stop the old generation."""
    pending = observed.record.coming if observed.record else None
    probe = pending.serving.probe if pending else None
    owner = _server(observed, observed.serving)
    shared = pending is not None and owner is not None and owner.port == pending.port
    if (
        pending is None
        or probe is None
        or not _usable(observed, pending.server, None if shared else pending.port)
    ):
        return Plan(deployment=observed.ref.name, actions=()), None
    wait_timeout = timeout or pending.serving.place.wait_timeout or _WAIT_TIMEOUT
    actions: list[Action] = [AwaitReady(server=pending.server, timeout=wait_timeout)]
    actions.append(ProbeServer(server=pending.server, probe=probe))
    if owner is not None and shared and owner.server != pending.server:
        if not supports_handover(
            pending.runtime, owner.runtime
        ):  # loading it again needs the recipe: `lmi up`
            return Plan(deployment=observed.ref.name, actions=()), None
        take = TakeAddress(server=pending.server, host=pending.host, port=pending.port, previous=owner.server)
        actions.append(take)
    actions += _sweep(observed, keep_server=pending.server, keep_artifact=pending.artifact)
    return Plan(deployment=observed.ref.name, actions=tuple(actions)), pending


def _prepare(
    spec: Spec, artifact: Artifact, observed: LocalObserved, inventory: LocalInventory
) -> Iterator[Action]:
    needs = NEEDS[spec.machine.runtime]
    if not inventory.engine and "engine" in needs:
        yield InstallEngine(version=ENGINE_VERSION)
    if not inventory.environment and "environment" in needs:
        yield BuildEnvironment(
            environment=spec.environment,
            packages=spec.machine.packages,
            requirements=spec.inputs.requirements.decode(),
            setup=spec.machine.setup,
        )
    if spec.machine.build is not None and not inventory.image:
        yield BuildImage(image=spec.machine.image, size=spec.machine.build.context.size)
    if inventory.missing_weights:
        yield FetchWeights(
            model_id=spec.model.model_id,
            commit=spec.model.commit,
            files=spec.weights.files,
            missing=inventory.missing_weights,
        )
    for each, missing in zip(spec.weights.additional, inventory.missing_additional, strict=True):
        if missing:
            yield FetchWeights(
                model_id=each.model_id, commit=each.commit, files=each.files, missing=missing, what=each.title
            )
    if artifact.digest not in observed.artifacts:
        yield PutArtifact(artifact=artifact.digest, files=artifact.paths)


def _start_server(spec: Spec, artifact: Artifact, observed: LocalObserved, desired: str) -> Iterator[Action]:
    place = spec.machine
    owner = _server(observed, observed.serving)
    shared = owner is not None and owner.port == place.port
    reused = _usable(observed, desired, None if shared else place.port)
    # Left-overs of an earlier `up` are removed first: they may occupy the address, and the memory that the new one
    # needs.
    kept = {observed.serving, desired if reused else None}
    yield from (StopServer(server=server.server) for server in observed.servers if server.server not in kept)
    if not reused:
        yield StartServer(
            server=desired,
            artifact=artifact.digest,
            environment=spec.environment,
            engine=ENGINE_VERSION,
            runtime=place.runtime,
            host=place.host,
            port=0 if shared else place.port,
        )
    yield AwaitReady(server=desired, timeout=place.startup_timeout)
    yield ProbeServer(server=desired, probe=spec.probe)
    if owner is not None and shared:
        yield TakeAddress(
            server=desired,
            host=place.host,
            port=place.port,
            previous=owner.server,
            loads_again=not supports_handover(place.runtime, owner.runtime),
        )


def _usable(observed: LocalObserved, desired: str, port: int | None) -> bool:
    """Whether the server exists and only needs to be waited for: alive, at `port` where it matters, not known to be
    silent.
    """
    present = _server(observed, desired)
    if present is None or present.phase not in ALIVE:
        return False
    silent = observed.record is not None and probe_unanswered(observed.record, desired)
    return not silent and (port is None or present.port in (None, port))


def _sweep(
    observed: LocalObserved, *, keep_server: str | None, keep_artifact: str | None
) -> Iterator[Action]:
    """What exists and is no longer desired. The folder that a stopped server leaves is removed the same way."""
    for server in observed.servers:
        if server.server != keep_server:
            yield StopServer(server=server.server)
    for found in observed.artifacts:
        if found != keep_artifact:
            yield RemoveArtifact(artifact=found)


def _server(observed: LocalObserved, name: str | None) -> ObservedServer | None:
    return next((server for server in observed.servers if server.server == name), None)


def serving(spec: Spec, artifact: Artifact) -> ServingRecord:
    """What later commands know of the generation."""
    machine = spec.machine
    place = LocalServing(
        environment=spec.environment,
        runtime=machine.runtime,
        image=machine.image,
        address=f"{machine.host}:{machine.port}",
        wait_timeout=machine.startup_timeout,
    )
    return serving_record(spec, artifact, place)


def generation(
    spec: Spec, artifact: Artifact, plan: Plan, observed: LocalObserved, *, since: str
) -> Generation:
    place = spec.machine
    return Generation(
        server=server_name(spec, artifact),
        spec=spec.digest,
        artifact=artifact.digest,
        runtime=place.runtime,
        host=place.host,
        port=place.port,
        serving=serving(spec, artifact),
        since=since,
    )


def estimate(spec: Spec, inventory: LocalInventory) -> Estimate:
    """What the user should know before agreeing to the plan."""
    figures = (
        ("weights", f"{spec.weights.size}"),
        *additional_figures(spec.weights),
        ("to fetch", f"{inventory.missing_weights + sum(inventory.missing_additional)}"),
        ("device", spec.machine.device),
        ("device memory", f"{spec.machine.device_memory}"),
    )
    return Estimate(figures=figures)
