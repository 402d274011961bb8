"""What differs between a spec and the world, as a plan; one file a place."""

from __future__ import annotations

from lmi_deploy.core.artifact import Artifact
from lmi_deploy.core.cloud_actions import DeleteEndpointConfig, DeleteModel, MakeBucket, ProbeEndpoint
from lmi_deploy.core.observed import CloudHeld, CloudObserved, Held, LocalHeld, LocalObserved, Observed
from lmi_deploy.core.place import LocalPlace, SageMakerPlace
from lmi_deploy.core.plan import Action, Plan, ProbeServer, RemoveArtifact, StopServer
from lmi_deploy.core.record import Generation
from lmi_deploy.core.spec import Spec
from lmi_deploy.decide.diff import (
    local,
    sagemaker,
    sagemaker_earlier,
    sagemaker_end,
    sagemaker_expiry,
    sagemaker_told,
)
from lmi_deploy.errors import UsageRefused

PROBES = (ProbeServer, ProbeEndpoint)
"""The actions that ask for one real answer."""
CLEARING = (RemoveArtifact, StopServer, DeleteEndpointConfig, DeleteModel)
"""What clears an old generation away, once the new one serves."""
FOUNDING = (MakeBucket,)
"""What must be there before a lock can be taken and a record written."""


def diff(spec: Spec, artifact: Artifact, observed: Observed, held: Held) -> Plan:
    """The actions that make the world what `spec` says; none when it is so already."""
    match spec.place, observed, held:
        case LocalPlace(), LocalObserved(), LocalHeld():
            return local.diff(spec, artifact, observed, held)
        case SageMakerPlace(), CloudObserved(), CloudHeld():
            return sagemaker.diff(spec, artifact, observed, held)
        case _:
            raise AssertionError("a place, and what was seen of another")


def elsewhere(spec: Spec, artifact: Artifact, plan: Plan, held: Held) -> Held | None:
    """What is held, with the placement to avoid that could not be had; None where no other is left to try."""
    match held:
        case LocalHeld():
            return None
        case CloudHeld():
            return sagemaker.elsewhere(spec, artifact, plan, held)


def teardown(observed: Observed, *, logs: bool = False, purge: tuple[str, ...] = ()) -> Plan:
    """Everything of the deployment; empty when nothing of it is there. `logs` and `purge` are the cloud's alone."""
    match observed:
        case LocalObserved():
            return local.teardown(observed)
        case CloudObserved():
            return sagemaker_end.teardown(observed, logs=logs, purge=purge)


def rollback(observed: Observed, to: int | str = 0) -> tuple[Plan, Generation]:
    """Back to an earlier generation: by its number (0: the one before), or by its name. NotFound where none is kept."""
    match observed:
        case LocalObserved():
            raise UsageRefused(
                f"{observed.ref.name}: target local keeps no earlier generation",
                hint="`lmi up` with the earlier recipe does the same",
            )
        case CloudObserved():
            return sagemaker_end.rollback(observed, to)


def earlier(observed: Observed) -> tuple[tuple[Generation, str], ...]:
    """What `rollback` can go back to, number 1 first, each with why it cannot; empty where it can."""
    match observed:
        case LocalObserved():
            return ()
        case CloudObserved():
            past = sagemaker_earlier.earlier(observed)
            return tuple((each, sagemaker_earlier.lacks(each, observed)) for each in past)


def waiting(observed: Observed, *, timeout: int | None) -> tuple[Plan, Generation | None]:
    """What is left of an `up` that ended before the deployment answered, and what it brings."""
    match observed:
        case LocalObserved():
            return local.waiting(observed, timeout=timeout)
        case CloudObserved():
            return sagemaker_end.waiting(observed, timeout=timeout)


def weights_named(observed: Observed) -> tuple[str, ...]:
    """The weights in a bucket that the deployment uses."""
    match observed:
        case LocalObserved():
            return ()
        case CloudObserved():
            return sagemaker_end.weights_named(observed.record)


def notices(observed: Observed, plan: Plan) -> tuple[str, ...]:
    """What a plan does that its actions alone do not explain."""
    match observed:
        case LocalObserved():
            return ()
        case CloudObserved():
            return tuple(filter(None, (sagemaker_expiry.expiry_notice(observed, plan),)))


def proof(spec: Spec, artifact: Artifact) -> Action:
    """The one real inference that proves what serves already."""
    match spec.place:
        case LocalPlace():
            return ProbeServer(server=local.server_name(spec, artifact), probe=spec.probe)
        case SageMakerPlace():
            return ProbeEndpoint(endpoint=spec.name, probe=spec.probe)


def generation(spec: Spec, artifact: Artifact, plan: Plan, observed: Observed, *, since: str) -> Generation:
    """What serves once the plan is carried out."""
    match spec.place, observed:
        case LocalPlace(), _:
            return local.generation(spec, artifact, since=since)
        case SageMakerPlace(), CloudObserved():
            return sagemaker_told.generation(spec, artifact, plan, observed, since=since)
        case _:
            raise AssertionError("a place, and what was seen of another")


def summary(spec: Spec, artifact: Artifact) -> dict[str, str]:
    """A generation in the words of its recipe: what `status` shows and `invoke` needs."""
    match spec.place:
        case LocalPlace():
            return local.summary(spec, artifact)
        case SageMakerPlace():
            return sagemaker_told.summary(spec, artifact)
