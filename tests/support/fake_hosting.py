"""SageMaker's hosting in memory: creates at once, states that move with a clock, trouble on demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from math import inf

from lmi_deploy.aws.lease_guard import LeaseGuard
from lmi_deploy.domain.inference_http import Head, HttpRequest
from lmi_deploy.domain.recipe import Pairs
from lmi_deploy.domain.sagemaker.settings import (
    EndpointConfigSettings,
    ModelSettings,
    Resource,
    ResourceKind,
    SeenEndpoint,
    SeenEndpointConfig,
    SeenModel,
)
from lmi_deploy.errors import CloudError, Conflict, LmiError, NotFound, QuotaExceeded, RoleNotAssumable
from lmi_deploy.ports.account import Caller
from lmi_deploy.ports.clock import Clock
from tests.support.fake_account import CALLER
from tests.support.fake_tags import FakeTags

NO_CAPACITY = "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error."
ANSWER = b'{"generated_text": "OK", "choices": [{"message": {"content": "OK"}, "finish_reason": "stop"}]}'
WRITES = frozenset(
    {
        *("create_model", "create_endpoint_config", "create_endpoint", "update_endpoint", "tag", "untag"),
        *("delete_endpoint", "delete_endpoint_config", "delete_model"),
        *("scale", "remove_scaling", "remove_logs", "start", "stop"),
    }
)
"""The methods that change something: none is carried out for who lost a lock (ports/cloud.py)."""
Answer = Callable[[str, HttpRequest], list[Head | bytes]]


def answers_well(name: str, request: HttpRequest) -> list[Head | bytes]:
    return [Head(status=200, reason="OK", headers=(("content-type", "application/json"),)), ANSWER]


@dataclass
class Trouble:
    """What is to go wrong, by the method of a port: an error before anything is done, or after it all is."""

    before: dict[str, list[LmiError]] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    """Methods whose next reply is lost: done, and the caller hears of a broken connection."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Why an endpoint does not come up, by instance type or endpoint config; absent where it does."""

    def meet(self, method: str) -> None:
        if self.before.get(method):
            raise self.before[method].pop(0)

    def lose(self, method: str) -> None:
        if method in self.lost:
            self.lost.remove(method)
            raise CloudError(f"{method}: the connection broke, time and again", hint="run it again")


@dataclass
class Endpoint:
    seen: SeenEndpoint
    until: float | None = None
    """When its status changes by itself."""
    then: SeenEndpoint | None = None
    """What it is afterwards; None: gone."""


class Process(LeaseGuard):
    """The locks that the process before the account holds; a copy of the account is before a process without any."""

    def __deepcopy__(self, memo: dict[int, object]) -> Process:
        return Process()


@dataclass
class World:
    """All that is on SageMaker's side. `calls` is every call of a port, in order."""

    clock: Clock
    process: Process = field(default_factory=Process)
    caller: Caller = CALLER
    startup: float = 300.0
    """Seconds until an endpoint is created or updated."""
    tag_lag: float = 0.0
    """Seconds that the tag search is behind: what was made, changed, deleted."""
    read_lag: float = 0.0
    """Seconds until a new model or endpoint config is found, as the emulator's `--lag reads=` has it."""
    role_lag: float = 0.0
    """Seconds, of this world's time, until its roles can be assumed."""
    trouble: Trouble = field(default_factory=Trouble)
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    configs: dict[str, SeenEndpointConfig] = field(default_factory=dict)
    models: dict[str, SeenModel] = field(default_factory=dict)
    made: dict[str, float] = field(default_factory=dict)
    """By ARN: when."""
    quotas: dict[str, float] = field(default_factory=dict)
    """How many instances endpoints may have; absent: 100."""
    prints: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What the containers of an endpoint print, once they run."""
    answer: Answer = answers_well
    calls: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tags = FakeTags(self.clock)

    def arn(self, kind: ResourceKind, name: str) -> str:
        where = f"{self.caller.region}:{self.caller.account}"
        return f"arn:{self.caller.partition}:sagemaker:{where}:{kind}/{name.lower()}"

    def call(self, method: str) -> None:
        if method in WRITES:
            self.process.check()
        self.calls.append(method)
        self.trouble.meet(method)
        self._turn()

    def tagged(self, kind: ResourceKind, name: str, tags: Pairs) -> None:
        arn = self.arn(kind, name)
        self.tags[arn], self.made[arn] = tuple(sorted(tags)), self.clock.monotonic()

    def drop(self, kind: ResourceKind, name: str) -> None:
        self.tags.pop(self.arn(kind, name), None)

    def resources(self) -> Iterator[Resource]:
        """What the tag search finds by now."""
        self._turn()
        yield from self.tags.shown(self.tag_lag)

    def is_seen(self, kind: ResourceKind, name: str) -> bool:
        """Whether reads find the model or endpoint config by now."""
        there = self.models if kind == "model" else self.configs
        return (
            name in there
            and self.clock.monotonic() >= self.made.get(self.arn(kind, name), -inf) + self.read_lag
        )

    def require_seen(self, kind: ResourceKind, name: str) -> None:
        if not self.is_seen(kind, name):
            raise NotFound(f"{kind} {name}: not found", hint="check its name", arn=self.arn(kind, name))

    def require_role(self, what: str) -> None:
        if self.clock.monotonic() < self.role_lag:
            raise RoleNotAssumable(f"{what}: SageMaker refused: Could not assume role", hint="look at it")

    def reason(self, config: str) -> str:
        instance = self.configs[config].settings.instance
        return self.trouble.reasons.get(config) or self.trouble.reasons.get(instance, "")

    def require_quota(self, config: str) -> None:
        wanted = self.configs[config].settings
        held: Counter[str] = Counter()
        for endpoint in self.endpoints.values():
            seen = self.configs.get(endpoint.seen.config)
            if seen and endpoint.seen.status != "Failed":
                held[seen.settings.instance] += endpoint.seen.wanted_count
        most = self.quotas.get(wanted.instance, 100.0)
        if held[wanted.instance] + wanted.count > most:
            raise QuotaExceeded(
                f'the quota "{wanted.instance} for endpoint usage" is {most:g}', hint="ask for more"
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


@dataclass
class FakeHosting:
    """The port Hosting."""

    world: World

    def endpoint(self, name: str) -> SeenEndpoint | None:
        self.world.call("endpoint")
        found = self.world.endpoints.get(name)
        return found.seen if found else None

    def endpoint_config(self, name: str) -> SeenEndpointConfig | None:
        self.world.call("endpoint_config")
        return self.world.configs.get(name) if self.world.is_seen("endpoint-config", name) else None

    def model(self, name: str) -> SeenModel | None:
        self.world.call("model")
        return self.world.models.get(name) if self.world.is_seen("model", name) else None

    def tags(self, arn: str) -> Pairs:
        self.world.call("tags")
        return self.world.tags.get(arn, ())

    def create_model(self, name: str, settings: ModelSettings, tags: Pairs) -> None:
        world = self.world
        world.call("create_model")
        _new(name, world.models, "model")
        world.require_role(f"model {name}")
        world.models[name] = SeenModel(name=name, arn=world.arn("model", name), settings=settings)
        world.tagged("model", name, tags)
        world.trouble.lose("create_model")

    def create_endpoint_config(self, name: str, settings: EndpointConfigSettings, tags: Pairs) -> None:
        world = self.world
        world.call("create_endpoint_config")
        _new(name, world.configs, "endpoint config")
        world.require_seen("model", settings.model)
        arn, now = world.arn("endpoint-config", name), world.clock.now().isoformat()
        world.configs[name] = SeenEndpointConfig(
            name=name, arn=arn, settings=settings, created=now, models=(settings.model,)
        )
        world.tagged("endpoint-config", name, tags)
        world.trouble.lose("create_endpoint_config")

    def create_endpoint(self, name: str, config: str, tags: Pairs) -> None:
        world = self.world
        world.call("create_endpoint")
        _new(name, world.endpoints, "endpoint")
        world.require_seen("endpoint-config", config)
        world.require_quota(config)
        begun = SeenEndpoint(
            name=name,
            arn=world.arn("endpoint", name),
            status="Creating",
            config=config,
            wanted_count=world.configs[config].settings.count,
            created=world.clock.now().isoformat(),
            modified=world.clock.now().isoformat(),
        )
        reason = world.reason(config)
        late = (world.clock.now() + timedelta(seconds=world.startup)).isoformat()
        failed = replace(begun, status="Failed", reason=reason, modified=late)
        ended = failed if reason else _serving(begun, config, world)
        world.endpoints[name] = Endpoint(begun, world.clock.monotonic() + world.startup, ended)
        world.tagged("endpoint", name, tags)
        world.trouble.lose("create_endpoint")

    def update_endpoint(self, name: str, config: str, *, keep_count: bool) -> None:
        world = self.world
        world.call("update_endpoint")
        before = self._settled(name)
        world.require_seen("endpoint-config", before.config)
        world.require_seen("endpoint-config", config)
        world.require_quota(config)
        now = world.clock.now()
        late = (now + timedelta(seconds=world.startup)).isoformat()
        begun = replace(before, status="Updating", pending=config, reason="", modified=now.isoformat())
        reason = world.reason(config)
        ended = replace(before, reason=reason, modified=late) if reason else _serving(begun, config, world)
        if keep_count and not reason:
            ended = replace(ended, count=before.count, wanted_count=before.wanted_count)
        world.endpoints[name] = Endpoint(begun, world.clock.monotonic() + world.startup, ended)
        world.trouble.lose("update_endpoint")

    def tag(self, arn: str, tags: Pairs) -> None:
        self.world.call("tag")
        _there(arn, self.world.tags, "resource")
        self.world.tags[arn] = tuple(sorted({**dict(self.world.tags[arn]), **dict(tags)}.items()))
        self.world.trouble.lose("tag")

    def untag(self, arn: str, names: tuple[str, ...]) -> None:
        self.world.call("untag")
        _there(arn, self.world.tags, "resource")
        self.world.tags[arn] = tuple(pair for pair in self.world.tags[arn] if pair[0] not in names)
        self.world.trouble.lose("untag")

    def delete_endpoint(self, name: str) -> None:
        world = self.world
        world.call("delete_endpoint")
        found = world.endpoints.get(name)
        if found is not None and found.seen.status != "Deleting":
            if found.seen.status == "Creating":
                raise Conflict(
                    f"endpoint {name}: it is in progress already", hint="wait until it has settled"
                )
            going = replace(found.seen, status="Deleting")
            world.endpoints[name] = Endpoint(going, world.clock.monotonic() + 10.0, None)
        world.trouble.lose("delete_endpoint")

    def delete_endpoint_config(self, name: str) -> None:
        self.world.call("delete_endpoint_config")
        self.world.configs.pop(name, None)
        self.world.drop("endpoint-config", name)
        self.world.trouble.lose("delete_endpoint_config")

    def delete_model(self, name: str) -> None:
        self.world.call("delete_model")
        self.world.models.pop(name, None)
        self.world.drop("model", name)
        self.world.trouble.lose("delete_model")

    def invoke(self, name: str, request: HttpRequest, *, timeout: float) -> Iterator[Head | bytes]:
        self.world.call("invoke")
        found = self.world.endpoints.get(name)
        if found is None or found.seen.status in ("Creating", "Failed"):
            raise NotFound(
                f"endpoint {name}: SageMaker does not know it as one that answers", hint="look at it"
            )
        yield from self.world.answer(name, request)

    def address(self, name: str) -> str:
        return (
            f"https://runtime.sagemaker.{self.world.caller.region}.amazonaws.com/endpoints/{name}/invocations"
        )

    def _settled(self, name: str) -> SeenEndpoint:
        _there(name, self.world.endpoints, "endpoint")
        seen = self.world.endpoints[name].seen
        if seen.status in ("Creating", "Updating", "Deleting", "RollingBack"):
            raise Conflict(f"endpoint {name}: it is in progress already", hint="wait until it has settled")
        if seen.status == "Failed":
            raise CloudError(f"endpoint {name}: it cannot be updated in status Failed", hint="delete it")
        return seen


def _serving(seen: SeenEndpoint, config: str, world: World) -> SeenEndpoint:
    count = world.configs[config].settings.count
    return replace(seen, status="InService", config=config, pending="", count=count, wanted_count=count)


def _new(name: str, there: Container[str], what: str) -> None:
    if name in there:
        raise Conflict(f"{what} {name}: it exists already", hint="look whether it is ours")


def _there(name: str, there: Container[str], what: str) -> None:
    if name not in there:
        raise NotFound(f"{what} {name}: not found", hint="check its name")
