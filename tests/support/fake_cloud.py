"""An AWS account in memory: every service that a deployment on SageMaker uses, and its buckets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import inf
from typing import Any, Generic, TypeVar, cast

from lmi_deploy.aws.lock.bucket_lock import BucketLock
from lmi_deploy.aws.s3.record_journal import BucketRecords
from lmi_deploy.domain.observed_state import Price
from lmi_deploy.domain.permissions import SAGEMAKER, Permission
from lmi_deploy.domain.price_table import RegionPrices
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.sagemaker.alarm_settings import KINDS, EndpointAlarms, ObservedAlarms, alarm_name
from lmi_deploy.domain.sagemaker.endpoint_metrics import RecentMetrics
from lmi_deploy.domain.sagemaker.expiry import ObservedSchedule, schedule_name
from lmi_deploy.domain.sagemaker.foreign_endpoint import ForeignScaling
from lmi_deploy.domain.sagemaker.optimization_job import OptimizationSettings
from lmi_deploy.domain.sagemaker.resource_settings import TAG, VARIANT, Resource
from lmi_deploy.domain.sagemaker.scaling_settings import ScalableKind, Scaling
from lmi_deploy.domain.sagemaker.transfer_job import JobKind, JobSettings, ObservedJob
from lmi_deploy.errors import AccessError, Conflict, NotFound, Refused
from lmi_deploy.ports.account import Caller
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.cloud import BucketServices, Cloud
from lmi_deploy.ports.event_history import EndpointCall
from lmi_deploy.ports.object_store import ObjectStore
from lmi_deploy.ports.prices import Use
from lmi_deploy.ports.quotas import ServiceQuota
from lmi_deploy.targets.sagemaker.weights_in_use import served_weights
from lmi_deploy.weights.bucket_weights import BucketWeights
from lmi_deploy.weights.transfer_settings import TransferSettings
from tests.support.fake_account import CALLER, FakeAccount
from tests.support.fake_components import FakeComponents
from tests.support.fake_hosting import AccountState, FakeHosting, Process
from tests.support.fake_iam import FakeIamSetup
from tests.support.fake_images import FakeImageBuilder, FakeRegistry
from tests.support.fake_store import FakeStore

LOGS = "/aws/sagemaker/Endpoints/"
COMPONENT_LOGS = "/aws/sagemaker/InferenceComponents/"


SettingsT = TypeVar("SettingsT", JobSettings, OptimizationSettings)


@dataclass
class FakeAutoscaling:
    """`targets` are variants, by their endpoint; `components` inference components."""

    state: AccountState
    targets: dict[str, Scaling] = field(default_factory=dict)
    components: dict[str, Scaling] = field(default_factory=dict)

    def scaling(self, endpoint: str, of: ScalableKind = "variant") -> Scaling | None:
        self.state.call("scaling")
        # AWS documents no end of a component's target with the component.
        exists = of == "component" or endpoint in self.state.endpoints
        return self._of(of).get(endpoint) if exists else None

    def scale(self, endpoint: str, scaling: Scaling, of: ScalableKind = "variant") -> None:
        self.state.call("scale")
        if endpoint not in (self.state.components if of == "component" else self.state.endpoints):
            raise NotFound(f"scaling of {endpoint}: no such {of}", hint="bring it up")
        self._of(of)[endpoint] = scaling
        self.state.failures.lose("scale")

    def remove(self, endpoint: str, of: ScalableKind = "variant") -> None:
        self.state.call("remove_scaling")
        self._of(of).pop(endpoint, None)
        self.state.failures.lose("remove_scaling")

    def _of(self, kind: ScalableKind) -> dict[str, Scaling]:
        return self.components if kind == "component" else self.targets


@dataclass
class FakeForeignScaling:
    state: AccountState

    def read(self, endpoint: str, variant: str) -> ForeignScaling | None:
        self.state.call("foreign_scaling")
        return self.state.scaled.get((endpoint, variant))

    def remove(self, endpoint: str, variant: str) -> None:
        self.state.call("remove_foreign_scaling")
        self.state.scaled.pop((endpoint, variant), None)
        self.state.failures.lose("remove_foreign_scaling")


@dataclass
class FakeSchedules:
    """`foreign`: names of schedules that are not ours."""

    state: AccountState
    found: dict[str, ObservedSchedule] = field(default_factory=dict)
    foreign: set[str] = field(default_factory=set)

    def deletion(self, endpoint: str) -> ObservedSchedule | None:
        self.state.call("schedule")
        return self.found.get(endpoint)

    def delete_at(self, endpoint: str, at: str, *, role: str) -> None:
        self.state.call("delete_at")
        if schedule_name(endpoint) in self.foreign:
            raise Refused(f"schedule {schedule_name(endpoint)}: it exists", hint="it was not changed")
        self.found[endpoint] = ObservedSchedule(name=schedule_name(endpoint), at=at, role=role, enabled=True)
        self.state.failures.lose("delete_at")

    def remove(self, endpoint: str) -> None:
        self.state.call("remove_schedule")
        self.found.pop(endpoint, None)
        self.state.failures.lose("remove_schedule")

    def run_due(self, now: str) -> None:
        """As AWS at this time: delete the endpoints that are due, and their schedules."""
        for endpoint in [name for name, schedule in self.found.items() if schedule.at <= now]:
            self.state.endpoints.pop(endpoint, None)
            self.state.tags.pop(self.state.arn("endpoint", endpoint), None)
            del self.found[endpoint]


@dataclass
class FakeResourceTags:
    state: AccountState

    def of(self, deployment: str) -> tuple[Resource, ...]:
        return tuple(resource for resource in self.all() if resource.tag(TAG) == deployment)

    def all(self) -> tuple[Resource, ...]:
        self.state.call("tagged")
        return tuple(resource for resource in self.state.resources() if resource.tag(TAG))


@dataclass
class FakeLogs:
    """A log group appears while its endpoint is being created, and outlives it."""

    state: AccountState
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    since: list[str] = field(default_factory=list)
    """The start time of each read."""

    def group(self, endpoint: str, *, component: bool = False) -> str:
        self.state.call("group")
        self._print()
        name = f"{COMPONENT_LOGS if component else LOGS}{endpoint}"
        return name if name in self.groups else ""

    def lines(self, group: str, *, start: str = "") -> Iterator[str]:
        self.state.call("lines")
        self._print()
        if group not in self.groups:
            raise NotFound(f"{group}: no such log group", hint="it comes with the first line")
        yield from self.groups[group]

    def follow(self, group: str, *, start: str = "") -> Iterator[str]:
        result = 0
        self.since.append(start)
        while True:
            self._print()
            lines = self.groups.get(group, ())
            yield from (line or " " for line in lines[result:])
            result = len(lines)
            yield ""
            self.state.clock.sleep(2.0)

    def remove(self, group: str) -> None:
        self.state.call("remove_logs")
        self.groups.pop(group, None)
        self.state.failures.lose("remove_logs")

    def _print(self) -> None:
        now, account = self.state.clock.monotonic(), self.state
        for name, endpoint in account.endpoints.items():
            has_started = endpoint.until is None or now >= endpoint.until - account.startup / 2
            if has_started and name in account.prints:
                self.groups[f"{LOGS}{name}"] = account.prints[name]
        for name in account.components.keys() & account.prints.keys():
            self.groups[f"{COMPONENT_LOGS}{name}"] = account.prints[name]


@dataclass
class FakeMetrics:
    """`requests`: when each endpoint or inference component had some. `late`: seconds until they are known. `found`: by
    name, the rest. As on AWS, an endpoint and a component have different dimensions.
    """

    state: AccountState
    requests: dict[str, list[datetime]] = field(default_factory=dict)
    late: float = 0.0
    found: dict[str, RecentMetrics] = field(default_factory=dict)

    def used(
        self,
        endpoints: Collection[str],
        *,
        since: datetime,
        until: datetime,
        components: Collection[str] = (),
    ) -> frozenset[str]:
        self.state.call("used")
        known = min(until, self.state.clock.now() - timedelta(seconds=self.late))
        measured = {
            *(name for name in endpoints if name not in self.state.components),
            *(name for name in components if name in self.state.components),
        }
        return frozenset(
            name for name in measured if any(since <= at <= known for at in self.requests.get(name, ()))
        )

    def recent(
        self, name: str, span: timedelta, variant: str = VARIANT, *, component: bool = False
    ) -> RecentMetrics:
        self.state.call("recent")
        return self._found(name, component=component)

    def between(
        self,
        name: str,
        since: datetime,
        until: datetime,
        variant: str = VARIANT,
        *,
        component: bool = False,
    ) -> RecentMetrics:
        self.state.call("between")
        return self._found(name, component=component)

    def _found(self, name: str, *, component: bool) -> RecentMetrics:
        measured = component == (name in self.state.components)
        return self.found.get(name, RecentMetrics()) if measured else RecentMetrics()


@dataclass
class FakeDashboards:
    """`found`: bodies by name."""

    state: AccountState
    found: dict[str, str] = field(default_factory=dict)

    def write(self, name: str, body: str, *, marker: str) -> None:
        self.state.call("write_dashboard")
        if name in self.found and marker not in self.found[name]:
            raise Refused(f"dashboard {name}: it exists", hint="it was not changed")
        self.found[name] = body
        self.state.failures.lose("write_dashboard")

    def remove(self, name: str, *, marker: str) -> None:
        self.state.call("remove_dashboard")
        if marker in self.found.get(name, ""):
            del self.found[name]
        self.state.failures.lose("remove_dashboard")


@dataclass
class FakeAlarms:
    """`found`: by endpoint. `foreign`: endpoints with an alarm of these names that is not ours."""

    state: AccountState
    found: dict[str, ObservedAlarms] = field(default_factory=dict)
    foreign: set[str] = field(default_factory=set)

    def read(self, endpoint: str) -> ObservedAlarms | None:
        self.state.call("alarms")
        return self.found.get(endpoint)

    def write(self, endpoint: str, alarms: EndpointAlarms, tags: Pairs) -> None:
        self.state.call("write_alarms")
        if endpoint in self.foreign:
            raise Refused(f"alarm of {endpoint}: it exists", hint="it was not changed")
        states = tuple((rule.kind, "INSUFFICIENT_DATA") for rule in alarms.rules)
        self.found[endpoint] = ObservedAlarms(settings=alarms, states=states)
        for kind in KINDS:
            if kind in dict(states):
                self.state.tagged("alarm", alarm_name(endpoint, kind), tags)
            else:
                self.state.drop("alarm", alarm_name(endpoint, kind))
        self.state.failures.lose("write_alarms")

    def remove(self, endpoint: str) -> None:
        self.state.call("remove_alarms")
        self.found.pop(endpoint, None)
        for kind in KINDS:
            self.state.drop("alarm", alarm_name(endpoint, kind))
        self.state.failures.lose("remove_alarms")


@dataclass
class FakeTopics:
    """`confirmed`: subscriptions by topic; others do not exist, unless `every` topic does."""

    state: AccountState
    confirmed: dict[str, int] = field(default_factory=dict)
    every: bool = True

    def subscriptions(self, topic: str) -> int:
        self.state.call("subscriptions")
        if not self.every and topic not in self.confirmed:
            raise NotFound(f"SNS topic {topic}: not found", hint="create it")
        return self.confirmed.get(topic, 1)


@dataclass
class FakePrices:
    state: AccountState
    regions: frozenset[str] = frozenset({"us-east-1"})
    """Those that the price list has."""
    interrupted_by: BaseException | None = None
    """Raised while the list is read."""
    date: str = "2026-11-01"
    hourly_of: dict[str, float] = field(
        default_factory=lambda: {"ml.g5.xlarge": 1.408, "ml.m5.4xlarge": 0.922}
    )

    only_listed: dict[str, float] = field(default_factory=dict)
    """Prices that the API does not give."""
    known: Callable[[str], Price | None] = lambda instance: None

    def hourly(self, instance: str, use: Use = "hosting") -> Price | None:
        return self._price(self.hourly_of[instance]) if instance in self.hourly_of else self.known(instance)

    def _price(self, usd: float) -> Price:
        return Price(hourly=usd, currency="USD", source=f"a fake of {self.date}", date=self.date)

    def listed(self, region: str, *, seconds: float | None = None) -> RegionPrices:
        if self.interrupted_by is not None:
            raise self.interrupted_by
        if region not in self.regions:
            raise NotFound(f"{region}: no hosting prices", hint="name another region")
        prices = {name: self._price(usd) for name, usd in {**self.hourly_of, **self.only_listed}.items()}
        return RegionPrices(
            region=region, date=self.state.clock.now().date(), source="a fake", hourly=prices, complete=True
        )


@dataclass
class FakeQuotas:
    state: AccountState
    missing: set[str] = field(default_factory=set)
    """Instance types that the region does not offer."""

    def endpoint_instances(self, instance: str) -> ServiceQuota | None:
        return self._quota("endpoint_instances", instance, instance, f"{instance} for endpoint usage")

    def processing_instances(self, instance: str) -> ServiceQuota | None:
        name = f"{instance} for processing job usage"
        return self._quota("processing_instances", instance, name, name)

    def _quota(self, call: str, instance: str, key: str, name: str) -> ServiceQuota | None:
        self.state.call(call)
        if instance in self.missing:
            return None
        return ServiceQuota(name=name, code="L-12345678", value=self.state.quotas.get(key, 100.0))


@dataclass
class FakeEventHistory:
    known: tuple[EndpointCall, ...] = ()
    denied: bool = False

    def calls(self, endpoint: str) -> tuple[EndpointCall, ...]:
        if self.denied:
            raise AccessError("history of API calls: may not cloudtrail:LookupEvents", hint="allow it")
        return self.known


@dataclass
class FakeRoles:
    """Every role exists, is assumable and may do everything, except as configured here."""

    state: AccountState
    absent: set[str] = field(default_factory=set)
    distrusting: dict[str, str] = field(default_factory=dict)
    denied: set[str] = field(default_factory=set)
    """Actions that are denied for everyone."""
    silent: bool = False
    """Whether the simulation is denied."""

    def assumable(self, role: str, service: str = SAGEMAKER) -> str:
        self._check("assumable")
        if role in self.absent:
            raise NotFound(f"role {role}: not found in the account", hint="make it")
        return self.distrusting.get(role, "")

    def lacking(self, principal: str, rights: Sequence[Permission]) -> tuple[Permission, ...]:
        self._check("lacking")
        return tuple(right for right in rights if right.action in self.denied)

    def _check(self, method: str) -> None:
        self.state.call(method)
        if self.silent:
            raise AccessError("IAM may not be asked", hint="none")


@dataclass
class FakeSecrets:
    names: set[str] = field(default_factory=set)

    def exists(self, name: str) -> bool:
        return name in self.names


@dataclass
class FakeJobs(Generic[SettingsT]):
    """A job takes `seconds`, then does its `work` and succeeds, or fails for a reason, which `work` may return."""

    state: AccountState
    kind: JobKind = "processing-job"
    seconds: float = 600.0
    reason: str = ""
    work: Callable[[str], str | None] = lambda job: None
    look: Callable[[str, int], None] = lambda job, machines: None
    """Called at each look at a running job that sends load."""
    started: dict[str, tuple[SettingsT, float]] = field(default_factory=dict)
    stopping: dict[str, float] = field(default_factory=dict)
    ended: dict[str, ObservedJob] = field(default_factory=dict)
    created: dict[str, datetime] = field(default_factory=dict)
    printed: tuple[str, ...] = ("transfer begun",)
    grace: float = 30.0
    """Seconds until a job has stopped."""

    def job(self, name: str) -> ObservedJob | None:
        self.state.call("job")
        if name not in self.started:
            return None
        observed = self._current(name)
        if name not in self.ended and observed.purpose == "load":
            self.look(name, observed.count)
        return self._current(name)

    def running(self) -> frozenset[str]:
        self.state.call("running")
        return frozenset(name for name in self.started if self._current(name).is_running)

    def since(self, moment: datetime) -> frozenset[str]:
        self.state.call("since")
        return frozenset(name for name in self.started if self.created[name] > moment)

    def start(self, name: str, settings: SettingsT, tags: Pairs) -> None:
        self.state.call("start")
        if name in self.started:
            raise Conflict(
                f"processing job {name}: it already exists",
                hint="check whether it belongs to this deployment",
            )
        self.state.require_role(f"processing job {name}")
        self.started[name] = (settings, self.state.clock.monotonic())
        self.created[name] = self.state.clock.now()
        self.state.tagged(self.kind, name, tags)
        self.state.failures.lose("start")

    def stop(self, name: str) -> None:
        self.state.call("stop")
        if name in self.started and name not in self.ended:
            self.stopping.setdefault(name, self.state.clock.monotonic() + self.grace)
        self.state.failures.lose("stop")

    def delete(self, name: str) -> None:
        self.state.call("delete_job")
        if name in self.ended:
            del self.started[name], self.ended[name]
            self.stopping.pop(name, None)
            self.state.tags.pop(self.state.arn(self.kind, name), None)
        self.state.failures.lose("delete_job")

    def lines(self, name: str) -> Iterator[str]:
        yield from self.printed if name in self.started else ()

    def _current(self, name: str) -> ObservedJob:
        if name not in self.ended and self.state.clock.monotonic() >= self.stopping.get(name, inf):
            self.ended[name] = replace(self._observed(name), status="Stopped", ended=self._now())
        if name not in self.ended and self.state.clock.monotonic() >= self.started[name][1] + self.seconds:
            reason = self.reason or self.work(name) or ""
            status = "Failed" if reason else "Completed"
            self.ended[name] = replace(self._observed(name), status=status, reason=reason, ended=self._now())
        return self.ended.get(name, self._observed(name))

    def _now(self) -> str:
        return self.state.clock.now().isoformat()

    def _observed(self, name: str) -> ObservedJob:
        status = "Stopping" if name in self.stopping else "InProgress"
        requests = self.started[name][0]
        return ObservedJob(
            name=name,
            arn=self.state.arn(self.kind, name),
            status=status,
            instance=requests.instance,
            count=requests.count if isinstance(requests, JobSettings) else 1,
            kind=self.kind,
            started=self.created[name].isoformat(),
            purpose=requests.purpose if isinstance(requests, JobSettings) else "transfer",
        )


class Guarded:
    """A bucket that refuses changes after a lost lock."""

    def __init__(self, store: ObjectStore, process: Process) -> None:
        self._store = store
        self._process = process

    def __getattr__(self, name: str) -> Any:
        if name in ("put", "delete", "remove", "copy", "create_multipart", "put_part", "complete", "abort"):
            self._process.check()
        return getattr(self._store, name)


class FakeCloud:
    """The account and its buckets; `cloud()` and `depot()` open them again, as a new process would."""

    def __init__(self, clock: Clock, caller: Caller = CALLER) -> None:
        self.clock = clock
        self.account_state = AccountState(clock, caller=caller)
        self.account = FakeAccount(self.account_state.caller)
        self.stores: dict[str, FakeStore] = {}
        self.scalers = FakeAutoscaling(self.account_state)
        self.foreign_scaling = FakeForeignScaling(self.account_state)
        self.schedules = FakeSchedules(self.account_state)
        self.logs = FakeLogs(self.account_state)
        self.metrics = FakeMetrics(self.account_state)
        self.dashboards = FakeDashboards(self.account_state)
        self.alarms = FakeAlarms(self.account_state)
        self.topics = FakeTopics(self.account_state)
        self.prices = FakePrices(self.account_state)
        self.limits = FakeQuotas(self.account_state)
        self.events = FakeEventHistory()
        self.roles = FakeRoles(self.account_state)
        self.iam_setup = FakeIamSetup()
        self.secrets = FakeSecrets()
        self.jobs = FakeJobs[JobSettings](self.account_state)
        self.optimizations = FakeJobs[OptimizationSettings](self.account_state, "optimization-job")
        self.images = FakeRegistry(self.account_state)
        self.builder = FakeImageBuilder(self.images)
        self.account_state.objects = self.store_of
        self._others: dict[str, FakeCloud] = {}

    def region(self, name: str) -> FakeCloud:
        """The account in a region: other endpoints, and the same buckets and roles."""
        if name in ("", self.account_state.caller.region):
            return self
        if name not in self._others:
            other = FakeCloud(self.clock, replace(self.account_state.caller, region=name))
            other.stores, other.account.buckets = self.stores, self.account.buckets
            other.roles, other.account_state.process = self.roles, self.account_state.process
            self._others[name] = other
            other.account.enabled = self.account.enabled
            self.account.enabled.add(name)
        return self._others[name]

    def begin_process(self) -> None:
        """A new `lmi`, which holds no lock."""
        self.account_state.process = Process()
        for other in self._others.values():
            other.account_state.process = self.account_state.process

    def cloud(self, region: str = "") -> Cloud:
        if (other := self.region(region)) is not self:
            return other.cloud()
        return Cloud(
            caller=self.account_state.caller,
            account=self.account,
            hosting=FakeHosting(self.account_state),
            components=FakeComponents(self.account_state),
            scalers=self.scalers,
            foreign_scaling=self.foreign_scaling,
            schedules=self.schedules,
            tagged=FakeResourceTags(self.account_state),
            events=self.events,
            logs=self.logs,
            metrics=self.metrics,
            dashboards=self.dashboards,
            alarms=self.alarms,
            topics=self.topics,
            prices=self.prices,
            limits=self.limits,
            roles=self.roles,
            iam_setup=self.iam_setup,
            secrets=self.secrets,
            jobs=self.jobs,
            optimizations=self.optimizations,
            images=self.images,
        )

    def depot(self, cloud: Cloud, bucket: str) -> BucketServices | None:
        if not cloud.account.has_bucket(bucket):
            return None
        store = cast(ObjectStore, Guarded(self.opened(bucket), self.account_state.process))
        return BucketServices(
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
            lock=BucketLock(
                self.opened(bucket), self.clock, command="lmi test", guard=self.account_state.process
            ),
        )

    def store_of(self, bucket: str) -> ObjectStore:
        """As SageMaker itself has it."""
        return FakeCloud.opened(self, bucket)

    def opened(self, bucket: str) -> ObjectStore:
        """As one process has it: its requests end when the process ends."""
        return self.stores.setdefault(bucket, FakeStore(bucket=bucket, clock=self.clock, others=self.stores))
