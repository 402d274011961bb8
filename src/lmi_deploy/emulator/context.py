"""The shared context of the emulated services: the clock, the records, the other services."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from lmi_deploy.emulator.clock import VirtualClock
from lmi_deploy.emulator.consistency_lag import Lag
from lmi_deploy.emulator.faults.rules import FaultRules
from lmi_deploy.emulator.record_store import Row, Store, Table

if TYPE_CHECKING:
    from lmi_deploy.emulator.hosting.component_states import Components
    from lmi_deploy.emulator.hosting.endpoint_states import EndpointController
    from lmi_deploy.emulator.hosting.network_access import ContainerKeys
    from lmi_deploy.emulator.iam.roles import MotoRoles
    from lmi_deploy.emulator.jobs.job_states import JobController
    from lmi_deploy.emulator.jobs.optimization_states import Optimizations
    from lmi_deploy.emulator.logs.groups import LogGroups
    from lmi_deploy.emulator.services.metrics import CloudWatchMetrics
    from lmi_deploy.emulator.services.resource_groups_tagging import TagIndex
    from lmi_deploy.emulator.services.s3_objects import ObjectSource

ACCOUNT: Final = "123456789012"


@dataclass(frozen=True, slots=True)
class Credentials:
    key: str
    secret: str = field(repr=False)
    token: str = field(repr=False)


@dataclass(slots=True)
class EmulatorContext:
    clock: VirtualClock
    store: Store
    faults: FaultRules
    roles: MotoRoles
    objects: ObjectSource
    logs: Callable[[str], LogGroups]
    """By region."""
    metrics: CloudWatchMetrics
    keys: ContainerKeys
    tags: TagIndex
    hosting: EndpointController = field(init=False)
    """These four carry out what records ask for; they are set when they exist, before the first request."""
    components: Components = field(init=False)
    optimizations: Optimizations = field(init=False)
    jobs: JobController = field(init=False)
    lag: Lag = field(default_factory=Lag)
    account: str = ACCOUNT
    address: str = ""
    """The address of the emulator."""
    has_registry: bool = False
    """Whether images are pushed to the emulator: then it knows those of its account."""
    s3_keys: Credentials | None = field(default=None, repr=False)
    """The keys for an outside S3 server, in place of the keys of roles."""

    def table(self, kind: str, region: str) -> Table:
        return self.store.table(kind, region)

    def arn(self, service: str, region: str, resource: str) -> str:
        return f"arn:{partition(region)}:{service}:{region}:{self.account}:{resource}"


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request that its shape allows."""

    operation: str
    params: Mapping[str, Any]
    region: str
    key: str


Operation = Callable[[EmulatorContext, ApiRequest], Mapping[str, Any] | None]


def partition(region: str) -> str:
    prefixes = {"cn-": "aws-cn", "us-gov-": "aws-us-gov", "us-iso-": "aws-iso", "us-isob-": "aws-iso-b"}
    return next((name for start, name in prefixes.items() if region.startswith(start)), "aws")


def tags_of(params: Mapping[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in params.get("Tags") or ()}


def tag_list(row: Row) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in row.get("tags", {}).items()]
