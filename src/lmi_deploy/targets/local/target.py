"""Target `local`: the same artifact on this machine, one server process, an address that stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from lmi_deploy.domain.action import Phase
from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.djl_serving import ENGINE_VERSION
from lmi_deploy.domain.gathered_facts import AvailableRuntimes, Facts, Machine
from lmi_deploy.domain.inference_http import HttpRequest, ResponseHead
from lmi_deploy.domain.local_actions import ProbeServer
from lmi_deploy.domain.observed_state import LocalInventory, LocalObserved, ObservedServer
from lmi_deploy.domain.plan import Action, Plan
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.record import DeploymentRef, Generation, Record
from lmi_deploy.domain.sagemaker.scaling_actions import CountChange
from lmi_deploy.domain.status_details import StatusDetails
from lmi_deploy.errors import NotFound, UsageRefused
from lmi_deploy.planning.image_build import with_built_image
from lmi_deploy.ports.async_inference import AsyncInference
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.compiled_models import CompiledModels
from lmi_deploy.ports.environments import Environments
from lmi_deploy.ports.hub import Hub
from lmi_deploy.ports.image_builder import ImageBuilder
from lmi_deploy.ports.inference_endpoint import InferenceEndpoint
from lmi_deploy.ports.local_state import State
from lmi_deploy.ports.model_server import ModelServer
from lmi_deploy.targets.local import dry_run
from lmi_deploy.targets.local import plan as local_plan
from lmi_deploy.targets.local import status as local_status
from lmi_deploy.targets.local.http_client import INVOCATIONS, exchange
from lmi_deploy.targets.local.log_file import tail
from lmi_deploy.targets.local.perform import LocalPerformers, runtime_of
from lmi_deploy.targets.local.request_examples import request_examples
from lmi_deploy.targets.local.resolve import place_of, setup_of
from lmi_deploy.targets.target import AccessToken, Hubs, Perform, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTarget(Target[LocalObserved, LocalInventory]):
    """`port` gives the existing port of a deployment, else a free one, which no other program gets until
    `release_port`; `runtimes` gets the recipe's own image.
    """

    state: State
    servers: Mapping[str, ModelServer]
    environments: Environments
    builder: ImageBuilder
    compiled_models: CompiledModels
    clock: Clock
    machine: Callable[[], Machine]
    port: Callable[[str], int]
    release_port: Callable[[str], None]
    runtimes: Callable[[str | None], AvailableRuntimes]

    place_of = staticmethod(place_of)
    plan_deployment = staticmethod(local_plan.diff)
    estimate = staticmethod(local_plan.estimate)
    plan_teardown = staticmethod(local_plan.teardown)
    plan_wait = staticmethod(local_plan.wait_plan)
    status_of = staticmethod(local_status.status_of)
    fingerprint = staticmethod(local_status.fingerprint)
    generation = staticmethod(local_plan.generation)
    serving = staticmethod(local_plan.serving)
    request_examples = staticmethod(request_examples)
    trial_spec = staticmethod(dry_run.trial_spec)
    billed: ClassVar[bool] = False

    def plan_rollback(self, observed: LocalObserved, to: int | str = 0) -> tuple[Plan, Generation]:
        _require_existing(observed)
        raise UsageRefused(
            f"{observed.ref.name}: target local keeps no earlier generations",
            hint="run `lmi up` with the earlier recipe",
        )

    def plan_count(self, observed: LocalObserved, count: int) -> tuple[Plan, CountChange]:
        _require_existing(observed)
        raise UsageRefused(
            f"{observed.ref.name}: target local runs one model server",
            hint="deploy it to target sagemaker for more than one instance",
        )

    def plan_notices(self, recipe: Recipe, facts: Facts, spec: Spec, plan: Plan) -> tuple[str, ...]:
        if not plan.has_action(Phase.START):
            return ()
        return setup_of(recipe, facts.machine or self.machine(), spec.engine, spec.machine.runtime).notices

    def probe_action(self, spec: Spec, artifact: Artifact) -> Action:
        return ProbeServer(server=local_plan.server_name(spec, artifact), probe=spec.probe)

    def gather(self, recipe: Recipe, facts: Facts) -> Facts:
        return replace(
            facts,
            machine=self.machine(),
            port=None if recipe.endpoint.port else self.port(recipe.name),
            runtimes=self.runtimes(with_built_image(recipe, facts).container.image),
        )

    def details(self, observed: LocalObserved) -> StatusDetails:
        serving = next((s for s in observed.servers if s.server == observed.serving), None)
        current = observed.record.current if observed.record else None
        # The server has more than one path: its root is more useful than the path for requests.
        return StatusDetails(
            address=self.address(observed.ref).removesuffix(INVOCATIONS) if current else "",
            server=serving or next(iter(observed.servers), None),
        )

    def require_extendable(self, observed: LocalObserved) -> None:
        _require_existing(observed)
        raise UsageRefused(
            f"{observed.ref.name}: deployments on target local do not expire",
            hint="use `lmi down` to delete it",
        )

    def lacking(self, spec: Spec, hubs: Hubs) -> str:
        return dry_run.lacking(spec, lambda: self.inventory(spec, hubs))

    def list_known(self) -> tuple[DeploymentRef, ...]:
        return tuple(DeploymentRef(name=name, target="local") for name in self.state.names())

    def status_of_home(self, home: Path) -> ObservedServer:
        """The server of one home, by the runtime that it was started with."""
        return self.server_of(home).status(home)

    def observe(self, ref: DeploymentRef) -> LocalObserved:
        servers = tuple(self.status_of_home(home) for home in self.state.servers(ref.name))
        record = self.state.read(ref.name)
        return LocalObserved(
            ref=ref,
            exists=self.state.exists(ref.name),
            record=record,
            servers=servers,
            artifacts=self.state.artifacts(ref.name),
            serving=_serving(servers, self.state, ref.name),
        )

    def read_record(self, ref: DeploymentRef) -> Record | None:
        return self.state.read(ref.name)

    def inventory(self, spec: Spec, hubs: Hubs) -> LocalInventory:
        return LocalInventory(
            engine=self.environments.engine_ready(ENGINE_VERSION),
            environment=self.environments.ready(spec.environment),
            missing_weights=self._missing(spec, hubs(spec.model.model_id)),
            missing_additional=tuple(
                hubs(each.model_id).missing(each.listing, each.files) for each in spec.weights.additional
            ),
            image=spec.place.build is None or self.builder.exists(spec.place.image),
        )

    def _missing(self, spec: Spec, hub: Hub) -> int:
        """Bytes; of a result of `lmi compile` all or none."""
        if spec.weights.compiled:
            return 0 if self.compiled_models.find(spec.weights.compiled) else spec.weights.size
        return hub.missing(spec.model.listing(spec.weights.files), spec.weights.files)

    def hand_over(self, ref: DeploymentRef) -> None:
        self.release_port(ref.name)

    def remember(self, ref: DeploymentRef) -> None:
        """Its lock and its record are created first, on the same disk."""

    def deploy_actions(self, spec: Spec, artifact: Artifact, hubs: Hubs) -> Perform:
        return self._performers(spec.ref).deploy(spec, artifact, hubs, self.environments, self.builder)

    def teardown_actions(self, ref: DeploymentRef) -> Perform:
        return self._performers(ref).teardown()

    def _performers(self, ref: DeploymentRef) -> LocalPerformers:
        return LocalPerformers(
            ref=ref,
            state=self.state,
            servers=self.servers,
            clock=self.clock,
            compiled_models=self.compiled_models,
            release_port=self.release_port,
        )

    def invoke(
        self, ref: DeploymentRef, request: HttpRequest, *, timeout: float
    ) -> Iterator[ResponseHead | bytes]:
        host, port = self._place(ref)
        return exchange(host, port, request, name=ref.name, timeout=timeout)

    def address(self, ref: DeploymentRef) -> str:
        host, port = self._place(ref)
        return f"http://{host}:{port}{INVOCATIONS}"

    def access_token(self, ref: DeploymentRef, seconds: int) -> AccessToken:
        raise UsageRefused(
            f"{ref.name}: a server on this machine takes no tokens, and has no OpenAI API of its own",
            hint=f"run `lmi proxy {ref.name}`, and give its address to OpenAI's client library",
        )

    def async_requests(self, ref: DeploymentRef) -> AsyncInference:
        raise UsageRefused(
            f"{ref.name}: a server on this machine has no queue: it answers directly",
            hint="omit --async; --timeout limits the time without data",
        )

    def inference_endpoint(self, ref: DeploymentRef) -> InferenceEndpoint:
        address, record = self.address(ref), self.state.read(ref.name)
        properties = dict(record.current.serving.properties) if record and record.current else {}
        has_adapters = properties.get("option.enable_lora", "").lower() == "true"
        adapters = f"{address.removesuffix(INVOCATIONS)}/adapters" if has_adapters else ""
        return InferenceEndpoint(url=address, stream_url=address, adapters_url=adapters)

    def _place(self, ref: DeploymentRef) -> tuple[str, int]:
        """Its address: of the pending generation, else of the current one."""
        record = self.state.read(ref.name)
        generation = (record.current or record.coming) if record else None
        if generation is None:
            raise NotFound(
                f"{ref.name}: no such deployment is running", hint="`lmi ls` lists the deployments"
            )
        return generation.host, generation.port

    def logs(self, ref: DeploymentRef, *, follow: bool) -> Iterator[str]:
        homes = self.state.servers(ref.name)
        if not homes:
            raise NotFound(
                f"{ref.name}: no deployment was started on this machine",
                hint="`lmi ls` lists the deployments",
            )
        serving = self.observe(ref).serving
        home = next((home for home in homes if home.name == serving), homes[-1])
        return tail(self.server_of(home).log(home), follow=follow, clock=self.clock)

    def server_of(self, home: Path) -> ModelServer:
        return self.servers[runtime_of(home)]


def _serving(servers: tuple[ObservedServer, ...], state: State, name: str) -> str | None:
    """The ready server at the deployment's address, of any generation."""
    record = state.read(name)
    ready = [server for server in servers if server.phase == "ready"]
    if record is None:
        # A record exists before anything is started. So the record was lost, and the only ready server is the current
        # one.
        return ready[0].server if len(ready) == 1 else None
    port = record.current.port if record.current else None
    return next((server.server for server in ready if server.port == port), None)


def _require_existing(observed: LocalObserved) -> None:
    if not observed.exists:
        raise NotFound(
            f"{observed.ref.name}: no such deployment on this machine",
            hint="`lmi ls` lists the deployments; for one on SageMaker add --target sagemaker --region REGION",
        )
