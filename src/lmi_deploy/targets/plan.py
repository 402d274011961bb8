"""The difference between a spec and the observed state, as a plan; one file per target."""

from __future__ import annotations

from lmi_deploy.domain.artifact import Artifact
from lmi_deploy.domain.observed import (
    CloudInventory,
    CloudObserved,
    Inventory,
    LocalInventory,
    LocalObserved,
    Observed,
)
from lmi_deploy.domain.plan import Action, Plan, ProbeServer, RemoveArtifact, StopServer
from lmi_deploy.domain.record import Generation
from lmi_deploy.domain.sagemaker.actions import DeleteEndpointConfig, DeleteModel, MakeBucket, ProbeEndpoint
from lmi_deploy.domain.spec import Spec
from lmi_deploy.domain.target_spec import LocalPlace, SageMakerPlace
from lmi_deploy.errors import UsageRefused
from lmi_deploy.targets.local import plan as local_plan
from lmi_deploy.targets.sagemaker import rollback as sagemaker_rollback
from lmi_deploy.targets.sagemaker import teardown as sagemaker_teardown
from lmi_deploy.targets.sagemaker.plan import deploy, expiry, rollback_candidates
from lmi_deploy.targets.sagemaker.plan import summary as plan_summary
from lmi_deploy.targets.sagemaker.plan import wait as plan_wait

PROBES = (ProbeServer, ProbeEndpoint)
"""The actions that send a probe."""
CLEANUP = (RemoveArtifact, StopServer, DeleteEndpointConfig, DeleteModel)
"""The actions that remove an old generation, once the new one serves."""
BOOTSTRAP = (MakeBucket,)
"""The actions that must precede the lock and the record."""


def diff(spec: Spec, artifact: Artifact, observed: Observed, inventory: Inventory) -> Plan:
    """The actions that turn the observed state into what `spec` says; none if it already is."""
    match spec.place, observed, inventory:
        case LocalPlace(), LocalObserved(), LocalInventory():
            return local_plan.diff(spec, artifact, observed, inventory)
        case SageMakerPlace(), CloudObserved(), CloudInventory():
            return deploy.diff(spec, artifact, observed, inventory)
        case _:
            raise AssertionError("a place, and what was seen of another")


def next_placement(spec: Spec, artifact: Artifact, plan: Plan, inventory: Inventory) -> Inventory | None:
    """The inventory, with the unavailable placement marked as one to avoid; None if no other is left to try."""
    match inventory:
        case LocalInventory():
            return None
        case CloudInventory():
            return deploy.next_placement(spec, artifact, plan, inventory)


def teardown(observed: Observed, *, logs: bool = False, purge: tuple[str, ...] = ()) -> Plan:
    """Everything of the deployment; empty if nothing of it exists. `logs` and `purge` apply only to SageMaker."""
    match observed:
        case LocalObserved():
            return local_plan.teardown(observed)
        case CloudObserved():
            return sagemaker_teardown.teardown(observed, logs=logs, purge=purge)


def rollback(observed: Observed, to: int | str = 0) -> tuple[Plan, Generation]:
    """Back to an earlier generation: by its number (0: the previous one), or by its name. NotFound if there is none."""
    match observed:
        case LocalObserved():
            raise UsageRefused(
                f"{observed.ref.name}: target local keeps no earlier generation",
                hint="`lmi up` with the earlier recipe does the same",
            )
        case CloudObserved():
            return sagemaker_rollback.rollback(observed, to)


def earlier(observed: Observed) -> tuple[tuple[Generation, str], ...]:
    """The generations for `rollback`, number 1 first, each with the reason if it is impossible; empty if it is
    possible.
    """
    match observed:
        case LocalObserved():
            return ()
        case CloudObserved():
            past = rollback_candidates.earlier(observed)
            return tuple((each, rollback_candidates.lacks(each, observed)) for each in past)


def wait_plan(observed: Observed, *, timeout: int | None) -> tuple[Plan, Generation | None]:
    """The remaining actions of an `up` that stopped before the deployment responded, and its generation."""
    match observed:
        case LocalObserved():
            return local_plan.wait_plan(observed, timeout=timeout)
        case CloudObserved():
            return plan_wait.wait_plan(observed, timeout=timeout)


def weights_named(observed: Observed) -> tuple[str, ...]:
    """The weights in a bucket that the deployment uses."""
    match observed:
        case LocalObserved():
            return ()
        case CloudObserved():
            return sagemaker_teardown.weights_named(observed.record)


def notices(observed: Observed, plan: Plan) -> tuple[str, ...]:
    """Effects of a plan that its actions alone do not explain."""
    match observed:
        case LocalObserved():
            return ()
        case CloudObserved():
            return tuple(filter(None, (expiry.expiry_notice(observed, plan),)))


def probe_action(spec: Spec, artifact: Artifact) -> Action:
    """The probe of the current generation."""
    match spec.place:
        case LocalPlace():
            return ProbeServer(server=local_plan.server_name(spec, artifact), probe=spec.probe)
        case SageMakerPlace():
            return ProbeEndpoint(endpoint=spec.name, probe=spec.probe)


def generation(spec: Spec, artifact: Artifact, plan: Plan, observed: Observed, *, since: str) -> Generation:
    """The generation that is current once the plan is carried out."""
    match spec.place, observed:
        case LocalPlace(), _:
            return local_plan.generation(spec, artifact, since=since)
        case SageMakerPlace(), CloudObserved():
            return plan_summary.generation(spec, artifact, plan, observed, since=since)
        case _:
            raise AssertionError("a place, and what was seen of another")


def summary(spec: Spec, artifact: Artifact) -> dict[str, str]:
    """The recipe's fields of a generation: what `status` shows and `invoke` needs."""
    match spec.place:
        case LocalPlace():
            return local_plan.summary(spec, artifact)
        case SageMakerPlace():
            return plan_summary.summary(spec, artifact)
