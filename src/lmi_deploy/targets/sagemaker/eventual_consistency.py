"""AWS is eventually consistent: wait, within a limit, for what was created a moment ago.

"If the dependent entities are not yet in DynamoDB, this causes a validation error. [...] So retry logic is
recommended" (SageMaker's API reference, CreateEndpoint). A new role: IAM user guide, "Changes that I make are not
always immediately visible". docs/reference/emulator.md quotes more of AWS on it; `lmi emulator --lag` emulates it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Final, TypeVar

from lmi_deploy.domain.events import Event, Notice, Progress
from lmi_deploy.domain.permissions import SAGEMAKER
from lmi_deploy.domain.sagemaker.resource_settings import TAG, ResourceKind
from lmi_deploy.errors import AccessError, LmiError, NotFound, RoleNotAssumable
from lmi_deploy.ports.account import Caller
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.cloud import Cloud

T = TypeVar("T")
TIMEOUT: Final = 60.0
"""Seconds. AWS says "a short time"; IAM's roles take some seconds."""
_QUIET: Final = 2.0
"""Seconds before the first message."""
_STEADY: Final = 5.0
_KINDS: Final[dict[ResourceKind, str]] = {"model": "model", "endpoint-config": "endpoint config"}


def arn_region(arn: str) -> str:
    return arn.split(":")[3]


def resource_arn(caller: Caller, kind: ResourceKind, name: str) -> str:
    """SageMaker writes names in ARNs in lower case."""
    return f"arn:{caller.partition}:sagemaker:{caller.region}:{caller.account}:{kind}/{name.lower()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Propagation:
    """`created`: names of models and endpoint configs that this run created, or that AWS reported as existing."""

    cloud: Cloud
    clock: Clock
    created: set[str] = field(default_factory=set)

    def until_found(
        self, kind: ResourceKind, name: str, request: Callable[[], None], *, key: str, also: str = ""
    ) -> Generator[Event, None, None]:
        """Repeat `request`, which names this resource (and `also` another one of its kind), until AWS finds it.
        NotFound at once if it was never created.
        """

        def is_late(error: LmiError) -> bool:
            arn = error.arn if isinstance(error, NotFound) else ""
            lost = next((one for one in (name, also) if one and arn.endswith(f":{kind}/{one.lower()}")), "")
            return bool(lost) and (lost in self.created or self._exists(kind, lost))

        yield from self._again(request, is_late, f"the {_KINDS[kind]} {name}", key)

    def until_assumable(
        self, role: str, request: Callable[[], None], *, key: str, service: str = SAGEMAKER
    ) -> Generator[Event, None, None]:
        """Repeat `request`, which needs this role, until the service can assume it. Fail at once if IAM says that it
        never will.
        """

        def is_late(error: LmiError) -> bool:
            return isinstance(error, RoleNotAssumable) and self._may_be_assumed(role, service)

        yield from self._again(request, is_late, f"the role {role.rpartition('/')[2]}", key)

    def until_visible(
        self, observe: Callable[[], T | None], *, what: str, key: str
    ) -> Generator[Event, None, T | None]:
        """The resource that AWS reported as existing; None if it did not become visible."""
        found: list[T] = []

        def request() -> None:
            observed = observe()
            if observed is None:
                raise NotFound(f"{what}: AWS accepted it, but does not return it yet")
            found.append(observed)

        try:
            yield from self._again(request, lambda error: isinstance(error, NotFound), what, key)
        except NotFound:
            return None
        return found[0]

    def _again(
        self, request: Callable[[], None], is_late: Callable[[LmiError], bool], what: str, key: str
    ) -> Generator[Event, None, None]:
        started, note, reported = (
            self.clock.monotonic(),
            f"AWS does not return {what} yet (eventual consistency)",
            False,
        )
        for pause in chain((0.5, 1.0, 1.0, 2.0, 3.0), repeat(_STEADY)):
            try:
                return request()
            except (NotFound, RoleNotAssumable) as error:
                if not is_late(error):
                    raise
                waited = self.clock.monotonic() - started
                if waited >= TIMEOUT:
                    error.message += f" ({what}: lmi waited {waited:.0f} s)"
                    error.hint = (
                        f"AWS does not return {what} yet (eventual consistency), or it was deleted: run the same "
                        "command again"
                    )
                    raise
            if waited >= _QUIET:
                if not reported:
                    yield Notice(text=f"{note}: lmi retries for at most {TIMEOUT:.0f} s")
                reported = True
                yield Progress(key=key, done=round(waited, 1), total=TIMEOUT, unit="seconds", note=note)
            self.clock.sleep(min(pause, TIMEOUT - waited))

    def _exists(self, kind: ResourceKind, name: str) -> bool:
        """Whether it carries our tag: SageMaker's own list of tags is not behind."""
        try:
            tags = self.cloud.hosting.tags(resource_arn(self.cloud.caller, kind, name))
        except NotFound:
            return False
        return any(key == TAG for key, _ in tags)

    def _may_be_assumed(self, role: str, service: str) -> bool:
        try:
            return not self.cloud.roles.assumable(role, service)
        except NotFound:
            return False
        except AccessError:
            return True  # IAM may not be queried, so nothing contradicts it
