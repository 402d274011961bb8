"""SageMaker's hosting in memory: creates immediately, states that follow a clock, failures on demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from math import inf

from lmi_deploy.aws.lock.lock_fencing import LeaseGuard
from lmi_deploy.domain.async_requests import AsyncCall, AsyncLocations
from lmi_deploy.domain.inference_http import VARIANT_HEADER, HttpRequest, ResponseHead
from lmi_deploy.domain.recipe_endpoint_keys import UpdatePolicy
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.sagemaker.component_settings import COMPONENT_HEADER, ObservedComponent
from lmi_deploy.domain.sagemaker.foreign_endpoint import ForeignEndpointConfig, ForeignModel, ForeignScaling
from lmi_deploy.domain.sagemaker.resource_settings import (
    CANDIDATE,
    VARIANT,
    CandidateVariant,
    EndpointConfigSettings,
    ListedEndpoint,
    ModelSettings,
    ObservedCandidate,
    ObservedEndpoint,
    ObservedEndpointConfig,
    ObservedModel,
    Resource,
    ResourceKind,
)
from lmi_deploy.errors import (
    CloudError,
    Conflict,
    LmiError,
    NoCopies,
    NotFound,
    QuotaExceeded,
    RoleNotAssumable,
    UsageRefused,
)
from lmi_deploy.ports.account import Caller
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.inference_endpoint import InferenceEndpoint
from lmi_deploy.ports.object_store import ObjectStore
from tests.support.fake_account import CALLER
from tests.support.fake_tags import FakeTags

NO_CAPACITY = "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error."
ANSWER = b'{"generated_text": "OK", "choices": [{"message": {"content": "OK"}, "finish_reason": "stop"}]}'
WRITES = frozenset(
    {
        *("write_alarms", "remove_alarms"),
        *("create_model", "create_endpoint_config", "create_endpoint", "update_endpoint", "tag", "untag"),
        *("set_instance_count", "set_traffic"),
        *("delete_endpoint", "delete_endpoint_config", "delete_model"),
        *("create_component", "update_component", "set_copies", "delete_component"),
        *("create_adapter", "update_adapter"),
        *("create_repository", "delete_image", "delete_repository"),
        *("delete_at", "remove_schedule", "write_dashboard", "remove_dashboard"),
        *("scale", "remove_scaling", "remove_foreign_scaling", "remove_logs", "start", "stop"),
    }
)
"""The methods that change something: none is executed after a lost lock (ports/cloud.py)."""
FakeResponse = Callable[[str, HttpRequest], list[ResponseHead | bytes]]


def ok_response(name: str, request: HttpRequest) -> list[ResponseHead | bytes]:
    return [ResponseHead(status=200, reason="OK", headers=(("content-type", "application/json"),)), ANSWER]


@dataclass
class HostingFailures:
    """The failures to inject, by the method of a port: an error before the effect, or after it."""

    before: dict[str, list[LmiError]] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    """Methods whose next reply is lost: executed, and the caller sees a broken connection."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Why an endpoint fails to start, by instance type or endpoint config; absent where it starts. By "more
    instances": why it gets no further ones."""

    def meet(self, method: str) -> None:
        if self.before.get(method):
            raise self.before[method].pop(0)

    def lose(self, method: str) -> None:
        if method in self.lost:
            self.lost.remove(method)
            raise CloudError(f"{method}: the connection broke repeatedly", hint="run it again")


@dataclass
class Endpoint:
    observed: ObservedEndpoint
    until: float | None = None
    """When its status changes by itself."""
    then: ObservedEndpoint | None = None
    """Its next status; None: gone."""


@dataclass
class Component:
    observed: ObservedComponent
    until: float | None = None
    """When its status changes by itself."""
    then: ObservedComponent | None = None
    """Its next status; None: gone."""


class Process(LeaseGuard):
    """The locks that the calling process holds; a copy of the account belongs to a process without any."""

    def __deepcopy__(self, memo: dict[int, object]) -> Process:
        return Process()


@dataclass
class AccountState:
    """All state of SageMaker. `calls` is every call of a port, in order."""

    clock: Clock
    process: Process = field(default_factory=Process)
    caller: Caller = CALLER
    startup: float = 300.0
    """Seconds until an endpoint is created or updated."""
    tag_lag: float = 0.0
    """Seconds that the tag search is behind: creations, changes, deletions."""
    read_lag: float = 0.0
    """Seconds until a new model or endpoint config is found, as the emulator's `--lag reads=`."""
    role_lag: float = 0.0
    """Seconds, on this clock, until its roles can be assumed."""
    failures: HostingFailures = field(default_factory=HostingFailures)
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    components: dict[str, Component] = field(default_factory=dict)
    configs: dict[str, ObservedEndpointConfig] = field(default_factory=dict)
    models: dict[str, ObservedModel] = field(default_factory=dict)
    created_at: dict[str, float] = field(default_factory=dict)
    """By ARN: the time."""
    quotas: dict[str, float] = field(default_factory=dict)
    """How many instances endpoints may have; absent: 100."""
    prints: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What the containers of an endpoint print, once they run."""
    answer: FakeResponse = ok_response
    refused: Callable[[ObservedComponent], None] = lambda observed: None
    """What AWS does after a request to a component without copies."""
    queued: bool = False
    """Whether asynchronous requests stay in the queue."""
    objects: Callable[[str], ObjectStore] | None = None
    """The buckets of the account, by name."""
    calls: list[str] = field(default_factory=list)
    scaled: dict[tuple[str, str], ForeignScaling] = field(default_factory=dict)
    """By endpoint and variant: what another tool registered."""
    foreign: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By endpoint config: the names of its variants, where they are not lmi's."""
    policies: dict[str, UpdatePolicy] = field(default_factory=dict)
    """By endpoint: how its last update replaced the instances."""

    def read_object(self, address: str) -> bytes:
        bucket, _, key = address.removeprefix("s3://").partition("/")
        assert self.objects is not None
        found = self.objects(bucket).get(key)
        assert found is not None, address
        return found[0]

    def write_object(self, address: str, body: bytes) -> None:
        bucket, _, key = address.removeprefix("s3://").partition("/")
        assert self.objects is not None
        self.objects(bucket).put(key, body)

    def __post_init__(self) -> None:
        self.tags = FakeTags(self.clock)

    def arn(self, kind: ResourceKind, name: str) -> str:
        where = f"{self.caller.region}:{self.caller.account}"
        return f"arn:{self.caller.partition}:sagemaker:{where}:{kind}/{name.lower()}"

    def call(self, method: str) -> None:
        if method in WRITES:
            self.process.check()
        self.calls.append(method)
        self.failures.meet(method)
        self._turn()

    def tagged(self, kind: ResourceKind, name: str, tags: Pairs) -> None:
        arn = self.arn(kind, name)
        self.tags[arn], self.created_at[arn] = tuple(sorted(tags)), self.clock.monotonic()

    def drop(self, kind: ResourceKind, name: str) -> None:
        self.tags.pop(self.arn(kind, name), None)

    def resources(self) -> Iterator[Resource]:
        """What the tag search finds by now."""
        self._turn()
        yield from self.tags.visible(self.tag_lag)

    def is_visible(self, kind: ResourceKind, name: str) -> bool:
        """Whether reads find the model or endpoint config by now."""
        existing = self.models if kind == "model" else self.configs
        return (
            name in existing
            and self.clock.monotonic() >= self.created_at.get(self.arn(kind, name), -inf) + self.read_lag
        )

    def require_visible(self, kind: ResourceKind, name: str) -> None:
        if not self.is_visible(kind, name):
            raise NotFound(f"{kind} {name}: not found", hint="check its name", arn=self.arn(kind, name))

    def require_role(self, what: str) -> None:
        if self.clock.monotonic() < self.role_lag:
            raise RoleNotAssumable(f"{what}: SageMaker refused: Could not assume role", hint="look at it")

    def reason(self, config: str) -> str:
        if found := self.failures.reasons.get(config):
            return found
        return next((why for _, why in self._attempts(config) if not why), self._attempts(config)[-1][1])

    def placed(self, config: str) -> str:
        """The instance type that it gets: with pools, the first with capacity."""
        return next((kind for kind, why in self._attempts(config) if not why), "")

    def _attempts(self, config: str) -> list[tuple[str, str]]:
        """Each instance type of the config, and why it cannot be had."""
        types = self.configs[config].settings.types
        return [(kind, self.failures.reasons.get(kind, "")) for kind in types]

    def require_quota(self, config: str, count: int = 0) -> None:
        """For so many instances of a config in addition to what runs; 0: its own number."""
        desired = self.configs[config].settings
        existing: Counter[str] = Counter()
        for endpoint in self.endpoints.values():
            observed = self.configs.get(endpoint.observed.config)
            if observed and endpoint.observed.status != "Failed":
                running = endpoint.observed.running_types
                existing.update(
                    dict(running) or {observed.settings.instance: endpoint.observed.desired_count}
                )
                if candidate := observed.settings.candidate:
                    existing[candidate.instance] += candidate.count
        more = Counter(dict.fromkeys(desired.types, count or desired.count))
        if desired.candidate and not count:
            more[desired.candidate.instance] += desired.candidate.count
        for instance, needed in more.items():
            most = self.quotas.get(instance, 100.0)
            if existing[instance] + needed > most:
                raise QuotaExceeded(
                    f'the quota "{instance} for endpoint usage" is {most:g}', hint="ask for more"
                )

    def _turn(self) -> None:
        for name, endpoint in list(self.endpoints.items()):
            if endpoint.until is None or self.clock.monotonic() < endpoint.until:
                continue
            if endpoint.then is None:
                del self.endpoints[name]
                self.drop("endpoint", name)
            else:
                self.endpoints[name] = Endpoint(endpoint.then)
        for name, component in list(self.components.items()):
            if component.until is None or self.clock.monotonic() < component.until:
                continue
            if component.then is None:
                del self.components[name]
                self.drop("inference-component", name)
            else:
                self.components[name] = Component(component.then)


@dataclass
class FakeHosting:
    """The port Hosting."""

    state: AccountState

    def endpoint(self, name: str) -> ObservedEndpoint | None:
        self.state.call("endpoint")
        found = self.state.endpoints.get(name)
        return found.observed if found else None

    def endpoints(self) -> Iterator[ListedEndpoint]:
        self.state.call("endpoints")
        for name, endpoint in sorted(self.state.endpoints.items()):
            observed = endpoint.observed
            yield ListedEndpoint(
                name=name, status=observed.status, created=observed.created, modified=observed.modified
            )

    def endpoint_config(self, name: str) -> ObservedEndpointConfig | None:
        self.state.call("endpoint_config")
        return self.state.configs.get(name) if self.state.is_visible("endpoint-config", name) else None

    def model(self, name: str) -> ObservedModel | None:
        self.state.call("model")
        return self.state.models.get(name) if self.state.is_visible("model", name) else None

    def foreign_endpoint_config(self, name: str) -> ForeignEndpointConfig | None:
        found = self.endpoint_config(name)
        if found is None:
            return None
        variants = tuple(self.state.foreign.get(name, (VARIANT,)))
        settings = found.settings if len(variants) == 1 else replace(found.settings, model="")
        return ForeignEndpointConfig(name=name, arn=found.arn, settings=settings, variants=variants)

    def foreign_model(self, name: str) -> ForeignModel | None:
        found = self.model(name)
        return ForeignModel(name=name, arn=found.arn, settings=found.settings) if found else None

    def tags(self, arn: str) -> Pairs:
        self.state.call("tags")
        return self.state.tags.get(arn, ())

    def create_model(self, name: str, settings: ModelSettings, tags: Pairs) -> None:
        account = self.state
        account.call("create_model")
        _new(name, account.models, "model")
        account.require_role(f"model {name}")
        account.models[name] = ObservedModel(name=name, arn=account.arn("model", name), settings=settings)
        account.tagged("model", name, tags)
        account.failures.lose("create_model")

    def create_endpoint_config(self, name: str, settings: EndpointConfigSettings, tags: Pairs) -> None:
        account = self.state
        account.call("create_endpoint_config")
        _new(name, account.configs, "endpoint config")
        models = (settings.model, settings.candidate.model if settings.candidate else "")
        for model in filter(None, models):
            account.require_visible("model", model)
        arn, now = account.arn("endpoint-config", name), account.clock.now().isoformat()
        account.configs[name] = ObservedEndpointConfig(
            name=name, arn=arn, settings=settings, created=now, models=tuple(sorted({*filter(None, models)}))
        )
        account.tagged("endpoint-config", name, tags)
        account.failures.lose("create_endpoint_config")

    def create_endpoint(self, name: str, config: str, tags: Pairs) -> None:
        account = self.state
        account.call("create_endpoint")
        _new(name, account.endpoints, "endpoint")
        account.require_visible("endpoint-config", config)
        account.require_quota(config)
        started = ObservedEndpoint(
            name=name,
            arn=account.arn("endpoint", name),
            status="Creating",
            config=config,
            desired_count=account.configs[config].settings.count,
            created=account.clock.now().isoformat(),
            modified=account.clock.now().isoformat(),
        )
        reason = account.reason(config)
        late = (account.clock.now() + timedelta(seconds=account.startup)).isoformat()
        failed = replace(started, status="Failed", reason=reason, modified=late)
        ended = failed if reason else _serving(started, config, account)
        account.endpoints[name] = Endpoint(started, account.clock.monotonic() + account.startup, ended)
        account.tagged("endpoint", name, tags)
        account.failures.lose("create_endpoint")

    def update_endpoint(
        self, name: str, config: str, *, keep_count: bool, policy: UpdatePolicy | None = None
    ) -> None:
        account = self.state
        account.call("update_endpoint")
        account.policies.pop(name, None)
        if policy is not None:
            account.policies[name] = policy
        before = self._settled(name)
        account.require_visible("endpoint-config", before.config)
        account.require_visible("endpoint-config", config)
        account.require_quota(config)
        if (name, before.variant) in account.scaled and before.variant not in account.foreign.get(
            config, (VARIANT,)
        ):
            raise CloudError(f"endpoint {name}: deregister the variant {before.variant}", hint="remove it")
        now = account.clock.now()
        late = (now + timedelta(seconds=account.startup)).isoformat()
        started = replace(before, status="Updating", pending=config, reason="", modified=now.isoformat())
        reason = account.reason(config)
        ended = (
            replace(before, reason=reason, modified=late) if reason else _serving(started, config, account)
        )
        if keep_count and not reason:
            ended = replace(ended, count=before.count, desired_count=before.desired_count)
        account.endpoints[name] = Endpoint(started, account.clock.monotonic() + account.startup, ended)
        account.failures.lose("update_endpoint")

    def set_instance_count(self, name: str, count: int, variant: str = VARIANT) -> None:
        account = self.state
        account.call("set_instance_count")
        before = self._settled(name)
        if variant != before.variant:
            raise CloudError(f"endpoint {name}: it has no variant {variant}", hint="name another one")
        if count > before.desired_count:
            account.require_quota(before.config, count - before.desired_count)
        now = account.clock.now()
        reason = account.failures.reasons.get("more instances", "") if count > before.count else ""
        started = replace(before, status="Updating", reason="", desired_count=count, modified=now.isoformat())
        late = (now + timedelta(seconds=account.startup)).isoformat()
        ended = replace(before, reason=reason, modified=late)
        if not reason:
            ended = replace(ended, count=count, desired_count=count, pools=_resized(before.pools, count))
        account.endpoints[name] = Endpoint(started, account.clock.monotonic() + account.startup, ended)
        account.failures.lose("set_instance_count")

    def set_traffic(self, name: str, percent: int) -> None:
        account = self.state
        account.call("set_traffic")
        before = self._settled(name)
        if before.candidate is None or before.candidate.shadow:
            raise CloudError(f"endpoint {name}: it has no variant candidate", hint="name another one")
        ended = replace(before, candidate=replace(before.candidate, percent=percent))
        started = replace(ended, status="Updating", reason="", modified=account.clock.now().isoformat())
        account.endpoints[name] = Endpoint(started, account.clock.monotonic() + account.startup, ended)
        account.failures.lose("set_traffic")

    def tag(self, arn: str, tags: Pairs) -> None:
        self.state.call("tag")
        _require_existing(arn, self.state.tags, "resource")
        self.state.tags[arn] = tuple(sorted({**dict(self.state.tags[arn]), **dict(tags)}.items()))
        self.state.failures.lose("tag")

    def untag(self, arn: str, names: tuple[str, ...]) -> None:
        self.state.call("untag")
        _require_existing(arn, self.state.tags, "resource")
        self.state.tags[arn] = tuple(pair for pair in self.state.tags[arn] if pair[0] not in names)
        self.state.failures.lose("untag")

    def delete_endpoint(self, name: str) -> None:
        account = self.state
        account.call("delete_endpoint")
        found = account.endpoints.get(name)
        on_it = [n for n, c in account.components.items() if c.observed.settings.place.endpoint == name]
        if on_it:
            raise CloudError(
                f"endpoint {name}: inference components attached: {', '.join(on_it)}", hint="delete them"
            )
        if found is not None and found.observed.status != "Deleting":
            if found.observed.status == "Creating":
                raise Conflict(
                    f"endpoint {name}: already in progress",
                    hint="wait until it has ended, then run the command again",
                )
            going = replace(found.observed, status="Deleting")
            account.endpoints[name] = Endpoint(going, account.clock.monotonic() + 10.0, None)
        account.failures.lose("delete_endpoint")

    def delete_endpoint_config(self, name: str) -> None:
        self.state.call("delete_endpoint_config")
        self.state.configs.pop(name, None)
        self.state.drop("endpoint-config", name)
        self.state.failures.lose("delete_endpoint_config")

    def delete_model(self, name: str) -> None:
        self.state.call("delete_model")
        self.state.models.pop(name, None)
        self.state.drop("model", name)
        self.state.failures.lose("delete_model")

    def invoke(
        self, name: str, request: HttpRequest, *, timeout: float, component: str = ""
    ) -> Iterator[ResponseHead | bytes]:
        self.state.call("invoke")
        component = dict(request.headers).get(COMPONENT_HEADER, component)
        if component:
            served = self.state.components.get(component)
            base = served.observed.base if served and served.observed.status == "InService" else ""
            serving = self.state.components.get(base) if base else served
            if serving is not None and serving.observed.status in ("InService", "Updating"):
                self._require_copies(serving.observed)
            elif serving is None or not serving.observed.copies:
                raise NotFound(f"inference component {component}: it does not answer", hint="look at it")
        found = self.state.endpoints.get(name)
        if found is None or found.observed.status in ("Creating", "Failed"):
            raise NotFound(f"endpoint {name}: SageMaker cannot invoke it", hint="look at it")
        variant, candidate = dict(request.headers).get(VARIANT_HEADER, ""), found.observed.candidate
        if variant == CANDIDATE and (candidate is None or candidate.shadow):
            raise NotFound(f"endpoint {name}: Variant {variant} not found", hint="look at it")
        yield from self.state.answer(component or name, request)

    def _require_copies(self, observed: ObservedComponent) -> None:
        if not observed.copies:
            self.state.refused(observed)
            raise NoCopies(f"inference component {observed.name}: no copy of the model runs now", hint="wait")

    def invoke_async(self, name: str, call: AsyncCall) -> AsyncLocations:
        """Answered at once, unless `queued`; an error of the model is a failure."""
        account = self.state
        account.call("invoke_async")
        found = account.endpoints.get(name)
        if found is None or found.observed.status in ("Creating", "Failed"):
            raise NotFound(f"endpoint {name}: SageMaker cannot invoke it", hint="look at it")
        settings = account.configs[found.observed.config].settings.asynchronous
        if settings is None:
            raise UsageRefused(f"endpoint {name}: it is not asynchronous", hint="omit --async")
        output = str(settings.output).rstrip("/")
        locations = AsyncLocations(
            output=f"{output}/{call.inference_id}.out",
            failure=f"{output}/failures/{call.inference_id}-error.out",
        )
        if not account.queued:
            request = HttpRequest(body=account.read_object(call.input), headers=call.headers)
            head, *body = account.answer(name, request)
            assert isinstance(head, ResponseHead)
            where = locations.output if head.status < 300 else locations.failure
            account.write_object(where, b"".join(part for part in body if isinstance(part, bytes)))
        return locations

    def address(self, name: str) -> str:
        return (
            f"https://runtime.sagemaker.{self.state.caller.region}.amazonaws.com/endpoints/{name}/invocations"
        )

    def inference_endpoint(self, name: str, component: str = "") -> InferenceEndpoint:
        return InferenceEndpoint(url=self.address(name), stream_url=f"{self.address(name)}-response-stream")

    def _settled(self, name: str) -> ObservedEndpoint:
        _require_existing(name, self.state.endpoints, "endpoint")
        observed = self.state.endpoints[name].observed
        if observed.status in ("Creating", "Updating", "Deleting", "RollingBack"):
            raise Conflict(
                f"endpoint {name}: already in progress",
                hint="wait until it has ended, then run the command again",
            )
        if observed.status == "Failed":
            raise CloudError(f"endpoint {name}: it cannot be updated in status Failed", hint="delete it")
        return observed


def _serving(observed: ObservedEndpoint, config: str, account: AccountState) -> ObservedEndpoint:
    settings = account.configs[config].settings
    count = settings.count
    return replace(
        observed,
        candidate=_candidate(settings.candidate),
        status="InService",
        config=config,
        pending="",
        count=count,
        desired_count=count,
        variant=account.foreign.get(config, (VARIANT,))[0],
        pools=_pools(settings, account.placed(config)),
    )


def _pools(settings: EndpointConfigSettings, placed: str) -> tuple[tuple[str, int], ...]:
    if settings.instance_pools is None:
        return ()
    return tuple((kind, settings.count if kind == placed else 0) for kind in settings.types)


def _candidate(settings: CandidateVariant | None) -> ObservedCandidate | None:
    """A production variant begins without traffic."""
    if settings is None:
        return None
    return ObservedCandidate(
        shadow=bool(settings.shadow_percent),
        percent=settings.shadow_percent,
        count=settings.count,
        desired_count=settings.count,
    )


def _resized(pools: tuple[tuple[str, int], ...], count: int) -> tuple[tuple[str, int], ...]:
    """More of the first type; fewer, of the last one first."""
    left, found = count, list[tuple[str, int]]()
    for kind, running in pools:
        kept = min(running, left)
        found.append((kind, kept))
        left -= kept
    return tuple(
        (kind, running + (left if number == 0 else 0)) for number, (kind, running) in enumerate(found)
    )


def _new(name: str, existing: Container[str], what: str) -> None:
    if name in existing:
        raise Conflict(
            f"{what} {name}: it already exists", hint="check whether it belongs to this deployment"
        )


def _require_existing(name: str, existing: Container[str], what: str) -> None:
    if name not in existing:
        raise NotFound(f"{what} {name}: not found", hint="check its name")
