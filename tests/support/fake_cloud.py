"""An AWS account in memory: everything that a deployment on SageMaker is done with, and its buckets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, cast

from lmi_deploy.aws.s3.journal import BucketRecords
from lmi_deploy.aws.s3.lock import BucketLock
from lmi_deploy.domain.observed import Price
from lmi_deploy.domain.recipe import Pairs
from lmi_deploy.domain.sagemaker.settings import TAG, Resource, Scaling
from lmi_deploy.errors import AccessError, Conflict, NotFound
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.cloud import Cloud, Depot
from lmi_deploy.ports.iam import Right
from lmi_deploy.ports.object_store import ObjectStore
from lmi_deploy.ports.prices import Use
from lmi_deploy.ports.processing_jobs import JobSettings, SeenJob
from lmi_deploy.ports.quotas import Quota
from lmi_deploy.targets.sagemaker.weights_in_use import served_weights
from lmi_deploy.weights.bucket_weights import BucketWeights
from lmi_deploy.weights.settings import TransferSettings
from tests.support.fake_account import FakeAccount
from tests.support.fake_hosting import FakeHosting, Process, World
from tests.support.fake_store import FakeStore

LOGS = "/aws/sagemaker/Endpoints/"


@dataclass
class FakeScalers:
    world: World
    kept: dict[str, Scaling] = field(default_factory=dict)

    def scaling(self, endpoint: str) -> Scaling | None:
        self.world.call("scaling")
        return self.kept.get(endpoint) if endpoint in self.world.endpoints else None

    def scale(self, endpoint: str, scaling: Scaling) -> None:
        self.world.call("scale")
        if endpoint not in self.world.endpoints:
            raise NotFound(f"scaling of {endpoint}: no such endpoint", hint="bring it up")
        self.kept[endpoint] = scaling
        self.world.trouble.lose("scale")

    def remove(self, endpoint: str) -> None:
        self.world.call("remove_scaling")
        self.kept.pop(endpoint, None)
        self.world.trouble.lose("remove_scaling")


@dataclass
class FakeTagged:
    world: World

    def of(self, deployment: str) -> tuple[Resource, ...]:
        return tuple(resource for resource in self.all() if resource.tag(TAG) == deployment)

    def all(self) -> tuple[Resource, ...]:
        self.world.call("tagged")
        return tuple(resource for resource in self.world.resources() if resource.tag(TAG))


@dataclass
class FakeLogs:
    """A group comes when its endpoint is half-way up, and outlives it."""

    world: World
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    since: list[str] = field(default_factory=list)
    """From when on it was followed, each time."""

    def group(self, endpoint: str) -> str:
        self.world.call("group")
        self._print()
        name = f"{LOGS}{endpoint}"
        return name if name in self.groups else ""

    def lines(self, group: str, *, start: str = "") -> Iterator[str]:
        self.world.call("lines")
        self._print()
        if group not in self.groups:
            raise NotFound(f"{group}: no such log group", hint="it comes with the first line")
        yield from self.groups[group]

    def follow(self, group: str, *, start: str = "") -> Iterator[str]:
        told = 0
        self.since.append(start)
        while True:
            self._print()
            lines = self.groups.get(group, ())
            yield from (line or " " for line in lines[told:])
            told = len(lines)
            yield ""
            self.world.clock.sleep(2.0)

    def remove(self, group: str) -> None:
        self.world.call("remove_logs")
        self.groups.pop(group, None)
        self.world.trouble.lose("remove_logs")

    def _print(self) -> None:
        now, world = self.world.clock.monotonic(), self.world
        for name, endpoint in world.endpoints.items():
            begun = endpoint.until is None or now >= endpoint.until - world.startup / 2
            if begun and name in world.prints:
                self.groups[f"{LOGS}{name}"] = world.prints[name]


@dataclass
class FakePrices:
    hourly_of: dict[str, float] = field(
        default_factory=lambda: {"ml.g5.xlarge": 1.408, "ml.m5.4xlarge": 0.922}
    )

    def hourly(self, instance: str, use: Use = "hosting") -> Price | None:
        if instance not in self.hourly_of:
            return None
        return Price(hourly=self.hourly_of[instance], currency="USD", source="a fake of 2026-01-01")


@dataclass
class FakeLimits:
    world: World
    missing: set[str] = field(default_factory=set)
    """Instance types that the region does not offer."""

    def endpoint_instances(self, instance: str) -> Quota | None:
        self.world.call("endpoint_instances")
        if instance in self.missing:
            return None
        value = self.world.quotas.get(instance, 100.0)
        return Quota(name=f"{instance} for endpoint usage", code="L-12345678", value=value)


@dataclass
class FakeRoles:
    """Every role is there and assumable, and may do everything, but for what is said here."""

    world: World
    absent: set[str] = field(default_factory=set)
    distrusting: dict[str, str] = field(default_factory=dict)
    denied: set[str] = field(default_factory=set)
    """Actions that nobody may do."""
    silent: bool = False
    """Whether nothing may be asked."""

    def assumable(self, role: str) -> str:
        self._ask("assumable")
        if role in self.absent:
            raise NotFound(f"role {role}: there is no such role in the account", hint="make it")
        return self.distrusting.get(role, "")

    def lacking(self, principal: str, rights: Sequence[Right]) -> tuple[Right, ...]:
        self._ask("lacking")
        return tuple(right for right in rights if right.action in self.denied)

    def _ask(self, method: str) -> None:
        self.world.call(method)
        if self.silent:
            raise AccessError("IAM may not be asked", hint="none")


@dataclass
class FakeSecrets:
    there: set[str] = field(default_factory=set)

    def exists(self, name: str) -> bool:
        return name in self.there


@dataclass
class FakeJobs:
    """A job takes `seconds`, then does its `work` and ends well, or for a reason."""

    world: World
    seconds: float = 600.0
    reason: str = ""
    work: Callable[[str], None] = lambda job: None
    started: dict[str, tuple[JobSettings, float]] = field(default_factory=dict)
    stopping: dict[str, float] = field(default_factory=dict)
    ended: dict[str, SeenJob] = field(default_factory=dict)
    printed: tuple[str, ...] = ("transfer begun",)
    grace: float = 30.0
    """Seconds that one takes to stop."""

    def job(self, name: str) -> SeenJob | None:
        self.world.call("job")
        if name not in self.started:
            return None
        if name not in self.ended and self.world.clock.monotonic() >= self.stopping.get(name, inf):
            self.ended[name] = replace(self._seen(name), status="Stopped")
        if name not in self.ended and self.world.clock.monotonic() >= self.started[name][1] + self.seconds:
            status = "Failed" if self.reason else "Completed"
            if not self.reason:
                self.work(name)
            self.ended[name] = replace(self._seen(name), status=status, reason=self.reason)
        return self.ended.get(name, self._seen(name))

    def start(self, name: str, settings: JobSettings, tags: Pairs) -> None:
        self.world.call("start")
        if name in self.started:
            raise Conflict(f"processing job {name}: it exists already", hint="look whether it is ours")
        self.world.require_role(f"processing job {name}")
        self.started[name] = (settings, self.world.clock.monotonic())
        self.world.tagged("processing-job", name, tags)
        self.world.trouble.lose("start")

    def stop(self, name: str) -> None:
        self.world.call("stop")
        if name in self.started and name not in self.ended:
            self.stopping.setdefault(name, self.world.clock.monotonic() + self.grace)
        self.world.trouble.lose("stop")

    def lines(self, name: str) -> Iterator[str]:
        yield from self.printed if name in self.started else ()

    def _seen(self, name: str) -> SeenJob:
        status = "Stopping" if name in self.stopping else "InProgress"
        asked = self.started[name][0]
        return SeenJob(
            name=name,
            arn=self.world.arn("processing-job", name),
            status=status,
            instance=asked.instance,
            count=asked.count,
        )


class Guarded:
    """A bucket of which nothing is changed by who lost a lock."""

    def __init__(self, store: ObjectStore, process: Process) -> None:
        self._store = store
        self._process = process

    def __getattr__(self, name: str) -> Any:
        if name in ("put", "delete", "remove", "copy", "begin", "put_part", "complete", "abort"):
            self._process.check()
        return getattr(self._store, name)


class FakeCloud:
    """The account and its buckets; `cloud()` and `depot()` open them anew, as a new process would."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.world = World(clock)
        self.account = FakeAccount(self.world.caller)
        self.stores: dict[str, FakeStore] = {}
        self.scalers = FakeScalers(self.world)
        self.logs = FakeLogs(self.world)
        self.prices = FakePrices()
        self.limits = FakeLimits(self.world)
        self.roles = FakeRoles(self.world)
        self.secrets = FakeSecrets()
        self.jobs = FakeJobs(self.world)

    def cloud(self, region: str = "") -> Cloud:
        return Cloud(
            caller=self.world.caller,
            account=self.account,
            hosting=FakeHosting(self.world),
            scalers=self.scalers,
            tagged=FakeTagged(self.world),
            logs=self.logs,
            prices=self.prices,
            limits=self.limits,
            roles=self.roles,
            secrets=self.secrets,
            jobs=self.jobs,
        )

    def depot(self, cloud: Cloud, bucket: str) -> Depot | None:
        if not cloud.account.has_bucket(bucket):
            return None
        store = cast(ObjectStore, Guarded(self.opened(bucket), self.world.process))
        return Depot(
            bucket=bucket,
            store=store,
            weights=BucketWeights(
                store=store,
                owner=cloud.caller.account,
                clock=self.clock,
                settings=TransferSettings(),
                where=f"s3://{bucket}",
                served=lambda recorded: served_weights(store, cloud.tagged, cloud.hosting, recorded=recorded),
            ),
            records=BucketRecords(store),
            lock=BucketLock(self.opened(bucket), self.clock, command="lmi test", guard=self.world.process),
        )

    def opened(self, bucket: str) -> ObjectStore:
        """As a process has it: what is done through it ends when that process does."""
        return self.stores.setdefault(bucket, FakeStore(bucket=bucket, clock=self.clock))
