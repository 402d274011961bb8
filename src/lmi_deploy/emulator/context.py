"""The shared context of the emulated services: the clock, the records, the other services."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from lmi_deploy.emulator.clock import VirtualClock
from lmi_deploy.emulator.consistency_lag import Lag
from lmi_deploy.emulator.faults.rules import FaultRules
from lmi_deploy.emulator.record_store import Row, Store, Table

ACCOUNT: Final = "123456789012"


@dataclass(frozen=True, slots=True)
class Credentials:
    key: str
    secret: str = field(repr=False)
    token: str = field(repr=False)


class Roles(Protocol):
    """Roles as IAM stores them."""

    def note(self) -> None:
        """IAM was changed."""

    def trusts(self, arn: str, service: str) -> bool:
        """Whether the role exists, has propagated everywhere, and lets the service assume it."""

    def allows(self, arn: str, action: str, resource: str, context: Mapping[str, str] | None = None) -> bool:
        """Whether the role's own policies allow it; `context` are condition keys in lower case."""

    def assume(self, arn: str, session: str, region: str) -> Credentials:
        """Keys that have the role's rights."""


class Objects(Protocol):
    """The objects of S3, as AWS's services read them."""

    def keys(self, bucket: str, prefix: str) -> list[str]:
        """All keys under a prefix; also empty if there is no such bucket."""


class Hosting(Protocol):
    """Carries out the changes that the record of an endpoint, or of a similar resource, asks for."""

    def begin(self, region: str, name: str) -> None:
        """Go on from the state in the record."""


class Jobs(Protocol):
    """Carries out the changes that the record of a job asks for."""

    def begin(self, region: str, name: str) -> None:
        """Run a job that was just accepted."""

    def stop(self, region: str, name: str) -> None:
        """Stop a job whose record has status Stopping."""


class Tags(Protocol):
    """The tagging API's index."""

    def visible(self, table: str, region: str) -> Iterator[tuple[str, Mapping[str, str]]]:
        """ARNs with their tags, as the index has them by now."""


class Alarms(Protocol):
    def ringing(self, region: str, name: str) -> bool | None:
        """Whether the CloudWatch alarm is in ALARM; None when there is no alarm of that name."""


class Keys(Protocol):
    def add(self, credentials: Credentials) -> str:
        """The path at which a container gets them."""


@dataclass(slots=True)
class EmulatorContext:
    clock: VirtualClock
    store: Store
    faults: FaultRules
    roles: Roles
    objects: Objects
    alarms: Alarms
    hosting: Hosting
    components: Hosting
    optimizations: Hosting
    jobs: Jobs
    keys: Keys
    tags: Tags
    lag: Lag = field(default_factory=Lag)
    account: str = ACCOUNT
    address: str = ""
    """The address of the emulator."""
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
