"""What a target does: one folder a target implements it, and nothing outside `targets/` asks which target it is."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_list import ListedDeployments, OrphanedDeployment
from lmi_deploy.domain.deployment_spec import EngineSpec, Spec, WeightsSpec
from lmi_deploy.domain.events import Event
from lmi_deploy.domain.gathered_facts import Facts, Machine
from lmi_deploy.domain.inference_http import HttpRequest, ProbeSpec, ResponseHead
from lmi_deploy.domain.observed_state import Inventory, Observed, Price
from lmi_deploy.domain.plan import Action, Estimate, Plan
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.record import DeploymentRef, DeploymentStatus, Generation, Record
from lmi_deploy.domain.sagemaker.endpoint_metrics import RecentMetrics
from lmi_deploy.domain.sagemaker.scaling_actions import CountChange
from lmi_deploy.domain.sagemaker.transfer_job import ObservedJob
from lmi_deploy.domain.secret import Secret
from lmi_deploy.domain.serving_record import ServingRecord
from lmi_deploy.domain.status_details import StatusDetails
from lmi_deploy.domain.target_spec import Place
from lmi_deploy.errors import LmiError
from lmi_deploy.ports.async_inference import AsyncInference
from lmi_deploy.ports.hub import Hub
from lmi_deploy.ports.inference_endpoint import InferenceEndpoint

Outcome = str
"""The result of an action in a few words, for the record."""
Perform = Mapping[type[Action], Callable[[Any], Generator[Event, None, Outcome]]]
"""The function for each kind of action; its keys are the members of the action union that the target uses."""
Hubs = Callable[[str], Hub]
"""The source of a model id: the Hub, S3 or a folder."""
ObservedT = TypeVar("ObservedT", bound=Observed)
ObservedT_contra = TypeVar("ObservedT_contra", bound=Observed, contravariant=True)
InventoryT = TypeVar("InventoryT", bound=Inventory)
InventoryT_contra = TypeVar("InventoryT_contra", bound=Inventory, contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessToken:
    """A token, and the base URL of the OpenAI API that takes it."""

    token: Secret
    base_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightFindings:
    """Notices, and one error for everything that would stop a plan."""

    notices: tuple[str, ...] = ()
    refusal: LmiError | None = None


class Decisions(Protocol[ObservedT_contra, InventoryT]):
    """Pure: from recipe, facts and what was observed. What a target does not have stays as it is here."""

    def place_of(self, recipe: Recipe, facts: Facts, weights: WeightsSpec, engine: EngineSpec) -> Place:
        """The target's part of the spec, with every choice made. Raises Unresolvable."""

    def plan_deployment(
        self, spec: Spec, artifact: Artifact, observed: ObservedT_contra, inventory: InventoryT
    ) -> Plan:
        """The actions that turn the observed state into what `spec` says; none if it already is. Refused if what
        exists is not ours, or being changed.
        """

    def estimate(self, spec: Spec, inventory: InventoryT) -> Estimate:
        """What the user should know before agreeing to the plan."""

    def during_update(self, spec: Spec, plan: Plan, observed: ObservedT_contra, inventory: InventoryT) -> str:
        """The cost while old and new instances run, in words; empty if the plan does not make them."""
        return ""

    def keep_choices(self, inventory: InventoryT, before: InventoryT) -> InventoryT:
        """With the prices and the choices of an earlier plan of the same command."""
        return inventory

    def next_placement(
        self, spec: Spec, artifact: Artifact, plan: Plan, inventory: InventoryT
    ) -> InventoryT | None:
        """With the unavailable placement marked as one to avoid; None if no other is left to try."""
        return None

    def plan_teardown(
        self, observed: ObservedT_contra, *, logs: bool = False, purge: tuple[str, ...] | None = None
    ) -> Plan:
        """Everything of the deployment; empty if nothing of it exists. `purge` names weights; unless it is None, images
        that lmi built are deleted, too. `logs` includes the containers' logs, where a target has them.
        """

    def plan_rollback(self, observed: ObservedT_contra, to: int | str = 0) -> tuple[Plan, Generation]:
        """Back to an earlier generation: by its number (0: the previous one), or by its name. NotFound if there is
        none.
        """

    def plan_count(self, observed: ObservedT_contra, count: int) -> tuple[Plan, CountChange]:
        """This number of instances; an empty plan if so many serve. UsageRefused where a target cannot have it;
        NotFound, Refused if there is no endpoint that can be scaled now.
        """

    def plan_wait(self, observed: ObservedT_contra, *, timeout: int | None) -> tuple[Plan, Generation | None]:
        """The remaining actions of an `up` that stopped before the deployment responded, and its generation."""

    def earlier(self, observed: ObservedT_contra) -> tuple[tuple[Generation, str], ...]:
        """The generations for `rollback`, number 1 first, each with the reason if it is impossible, or empty."""
        return ()

    def status_of(self, observed: ObservedT_contra) -> tuple[DeploymentStatus, str]:
        """The state by comparison with the record, and the reason if it is not in sync."""

    def fingerprint(self, observed: ObservedT_contra) -> list[object]:
        """The state that a plan depends on: without what changes by itself between two reads, or what the provider
        shows only later.
        """

    def notices(self, observed: ObservedT_contra, plan: Plan) -> tuple[str, ...]:
        """Problems of the existing resources, and what the plan does about them."""
        return ()

    def plan_notices(self, recipe: Recipe, facts: Facts, spec: Spec, plan: Plan) -> tuple[str, ...]:
        """Effects of the plan that its actions alone do not explain."""
        return ()

    def probe_action(self, spec: Spec, artifact: Artifact) -> Action:
        """The probe of the current generation."""

    def generation(
        self, spec: Spec, artifact: Artifact, plan: Plan, observed: ObservedT_contra, *, since: str
    ) -> Generation:
        """The generation that is current once the plan is carried out."""

    def serving(self, spec: Spec, artifact: Artifact) -> ServingRecord:
        """What later commands know of a generation."""

    def weights_named(self, observed: ObservedT_contra) -> tuple[str, ...]:
        """The weights in a bucket that the deployment uses."""
        return ()

    def unattended(self, observed: ObservedT_contra) -> str:
        """Why `lmi gc` may delete it; empty if it may not."""
        return ""

    def kept(self, observed: ObservedT_contra, plan: Plan, *, region: str) -> tuple[str, ...]:
        """What a teardown leaves alone, and why. Refused if nothing is here and the user may mean another place.

        `region` is what the user named; empty: the default one.
        """
        return ()

    def request_examples(
        self, ref: DeploymentRef, serving: ServingRecord, probe: ProbeSpec, address: str
    ) -> str:
        """How to send the probe again: through `lmi proxy` first, then without it."""


class Costs(Protocol[ObservedT_contra, InventoryT_contra]):
    """What a deployment costs; in words, empty if it costs nothing or the price is unknown."""

    billed: ClassVar[bool]
    """Whether something is billed while it exists."""

    def hourly_cost(self, observed: ObservedT_contra) -> str:
        """Per hour, of all that runs now."""
        return ""

    def remaining_cost(self, observed: ObservedT_contra) -> str:
        """What still exists although a command stops early, and its cost."""
        return ""

    def prices(self, inventory: InventoryT_contra) -> Mapping[str, Price]:
        """Of an hour, by instance type, as the plan shows them."""
        return {}

    def most_hourly(self, spec: Spec, inventory: InventoryT_contra) -> float | None:
        """US dollars of an hour, fully scaled, without jobs; None if a price is unknown."""
        return 0.0

    def with_other_scaling(self, spec: Spec, observed: ObservedT_contra) -> Spec:
        """For its cost: scaled as it is now, by another tool, where the recipe says nothing."""
        return spec

    def require_affordable(
        self, spec: Spec, plan: Plan, observed: ObservedT_contra, inventory: InventoryT_contra, most: float
    ) -> None:
        """Refused if the plan may cost more than `most` per hour, fully scaled, or its price is unknown."""
        return None

    def require_affordable_generation(
        self, generation: Generation, ref: DeploymentRef, most: float | None
    ) -> str:
        """The hourly cost of a recorded generation; Refused if that may be above `most`, or is unknown."""
        return ""


class Target(Decisions[ObservedT, InventoryT], Costs[ObservedT, InventoryT], Protocol[ObservedT, InventoryT]):
    """Decisions, costs, and the reads and writes at the target."""

    def gather(self, recipe: Recipe, facts: Facts) -> Facts:
        """With the facts that the target's decisions need: reads only."""

    def observe(self, ref: DeploymentRef) -> ObservedT:
        """The current state of the deployment: reads only."""

    def inspect(self, ref: DeploymentRef) -> ObservedT:
        """The same, plus whether the files exist from which an instance that starts now would load the model."""
        return self.observe(ref)

    def observe_scaling(self, ref: DeploymentRef) -> ObservedT:
        """As `observe`, plus what scales it automatically."""
        return self.observe(ref)

    def read_record(self, ref: DeploymentRef) -> Record | None:
        """Its record alone, which is cheaper than a look at all of it."""

    def confirm(self, observed: ObservedT) -> ObservedT:
        """With each resource looked up directly, not in a search that lags: for a plan that changes something."""
        return observed

    def observe_all(self, ref: DeploymentRef) -> ObservedT:
        """The same, plus everything that a teardown needs, each resource looked up directly."""
        return self.observe(ref)

    def inventory(self, spec: Spec, hubs: Hubs) -> InventoryT:
        """What already exists around the deployment: reads only."""

    def with_prices(self, spec: Spec, observed: ObservedT, inventory: InventoryT) -> InventoryT:
        """With its cost: requested only for a plan that changes something."""
        return inventory

    def preflight(self, spec: Spec, plan: Plan, recipe: str, *, quick: bool = False) -> PreflightFindings:
        """What would stop the plan, and what it lost. `recipe` is its name for a command line. `quick`:
        of a plan that changes nothing, with one request.
        """
        return PreflightFindings()

    def details(self, observed: ObservedT) -> StatusDetails:
        """What `status` shows."""

    def recent_metrics(self, observed: ObservedT, *, candidate: bool = False) -> RecentMetrics | None:
        """Of the last hour; None where there is none. If it cannot be read, it contains the reason."""
        return None

    def list_known(self) -> tuple[DeploymentRef, ...]:
        """Every deployment that this machine knows."""

    def list_all(self, region: str) -> ListedDeployments:
        """Every deployment that has any resources, from any machine: in requests for pages, none for a deployment."""
        return ListedDeployments()

    def list_jobs(self, region: str, since: datetime) -> Iterator[tuple[DeploymentRef, ObservedJob]]:
        """The jobs of deployments that were created since then, running or not."""
        return iter(())

    def list_orphans(self, region: str) -> tuple[OrphanedDeployment, ...]:
        """Those that have expired, and those that an interrupted run left without a record."""
        return ()

    def hand_over(self, ref: DeploymentRef) -> None:
        """Another process carries out the plan: what this one keeps for the deployment, such as a port, is free."""
        return None

    def remember(self, ref: DeploymentRef) -> None:
        """Note on this machine that it is deployed from here: before anything is created, so that an unwritable home
        stops an `up` (DiskRefused) before it costs anything.
        """

    def require_removable(self, observed: ObservedT) -> None:
        """Refused, with the cost, if a teardown would leave running what it no longer finds."""
        return None

    def require_startable(self, observed: ObservedT, generation: Generation) -> None:
        """Refused if no new instance of a recorded generation could start: its role is gone, or may not read it."""
        return None

    def require_extendable(self, observed: ObservedT) -> object:
        """UsageRefused where a target has no expiry; NotFound, Refused if there is no endpoint that lmi owns."""

    def set_expiry(self, observed: ObservedT, expires: str) -> None:
        """Move the time after which `lmi gc` may delete it; ISO 8601."""
        self.require_extendable(observed)

    def deploy_actions(self, spec: Spec, artifact: Artifact, hubs: Hubs) -> Perform:
        """The actions that deploy a spec, including those of a teardown."""

    def teardown_actions(self, ref: DeploymentRef) -> Perform:
        """The writes that need no spec: those of a teardown, of waiting and of going back."""

    def invoke(
        self, ref: DeploymentRef, request: HttpRequest, *, timeout: float
    ) -> Iterator[ResponseHead | bytes]:
        """Send one request to the deployment's address: the head, then the body as it arrives."""

    def address(self, ref: DeploymentRef) -> str:
        """Its URL for invocations. NotFound if it was never deployed."""

    def access_token(self, ref: DeploymentRef, seconds: int) -> AccessToken:
        """For OpenAI's client libraries, without a proxy. UsageRefused where a target has no such path."""

    def inference_endpoint(self, ref: DeploymentRef) -> InferenceEndpoint:
        """The addresses and the signature for an HTTP client of our own. NotFound if it was never deployed."""

    def async_requests(self, ref: DeploymentRef) -> AsyncInference:
        """Its queue. UsageRefused where a target has none."""

    def logs(self, ref: DeploymentRef, *, follow: bool) -> Iterator[str]:
        """Lines of the serving process, oldest first; with `follow` until the caller stops."""


class TrialTarget(Target[ObservedT, InventoryT], Protocol[ObservedT, InventoryT]):
    """Where an artifact for another target is tried first: this machine."""

    def lacking(self, spec: Spec, hubs: Hubs) -> str:
        """Why a try would cost more than its time, in words; empty if everything for it is here."""

    def trial_spec(self, spec: Spec, artifact: Artifact, machine: Machine) -> Spec:
        """The same spec on this machine, under a name that no recipe's deployment has. Unresolvable if its engine
        does not run here.
        """


AnyTarget: TypeAlias = Target[Any, Any]
"""For workflows: what a target observed goes back to the same target, unread."""
