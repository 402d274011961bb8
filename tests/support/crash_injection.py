"""A process with a predefined end: at an action of its plan, or at the n-th thing it writes.

SIGKILL is simulated by an exception that is never caught and by ports that do nothing after it: no lock is
released, no record written. New objects afterwards are built from the persisted state.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from lmi_deploy.domain.events import Event
from lmi_deploy.domain.plan import Action
from lmi_deploy.errors import CloudError
from lmi_deploy.ports.cloud import BucketServices, Cloud
from lmi_deploy.ports.object_store import ObjectStore
from lmi_deploy.targets.target import Outcome, Perform
from tests.support.action_failures import Killed, Performer
from tests.support.fake_cloud import FakeCloud

Moment = Literal["before", "after", "reply lost"]
CrashKind = Literal["SIGKILL", "SIGINT", "SIGSTOP", "broken connection"]
"""SIGSTOP: the process is suspended, and continues once another one has its lock."""
_WRITES = frozenset(
    {
        *("create_model", "create_endpoint_config", "create_endpoint", "update_endpoint", "tag"),
        *(
            "delete_endpoint",
            "delete_endpoint_config",
            "delete_model",
            "scale",
            "remove",
            "start",
            "stop",
            "delete_job",
        ),
        *("delete_at", "set_instance_count", "set_traffic", "write"),
        *("create_component", "update_component", "delete_component", "create_adapter", "update_adapter"),
        *("set_copies",),
        *("create", "delete_image", "delete_repository"),
        *("make_bucket", "put", "copy", "delete", "create_multipart", "put_part", "complete", "abort"),
    }
)
"""Methods of the ports that change external state."""
BETWEEN = "between"
"""What is written when no action is in progress: the lock and the record."""


@dataclass(frozen=True)
class Crash:
    """`number` counts the actions of the command, or for a lost reply all its writes."""

    moment: Moment
    number: int
    ending: CrashKind


@dataclass
class CrashInjector:
    """One process: what it has performed and written, and what ends it."""

    crash: Crash | None = None
    actions: list[str] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    """The actions that completed."""
    writes: list[tuple[str, str]] = field(default_factory=list)
    """The action in progress, and what was written."""
    performable: set[str] = field(default_factory=set)
    dead: bool = False
    asleep: bool = False
    """Whether another process is running at the moment."""
    suspended: Callable[[], None] = lambda: None
    """What happens while the process is suspended."""
    _now: str = BETWEEN

    def around(self, perform: Perform) -> Perform:
        self.performable |= {kind.kind for kind in perform}
        return {kind: self._around(performer) for kind, performer in perform.items()}

    def count_call(self) -> None:
        if self.dead:
            raise Killed

    def wrote(self, what: str) -> None:
        if not self.asleep:
            self.writes.append((self._now, what))
            self._meet("reply lost", len(self.writes))

    def _around(self, performer: Performer) -> Performer:
        def performed(action: Action) -> Generator[Event, None, Outcome]:
            self._now = action.kind
            self.actions.append(self._now)
            self._meet("before", len(self.actions))
            outcome = yield from performer(action)
            self.done.append(len(self.actions) - 1)
            self._meet("after", len(self.actions))
            self._now = BETWEEN
            return outcome

        return performed

    def _meet(self, moment: Moment, count: int) -> None:
        if self.crash is None or (self.crash.moment, self.crash.number) != (moment, count - 1):
            return
        match self.crash.ending:
            case "SIGKILL":
                self.dead = True
                raise Killed
            case "SIGINT" if threading.current_thread() is threading.main_thread():
                raise KeyboardInterrupt
            case "SIGINT":  # a transfer thread: the signal goes to the main thread
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            case "SIGSTOP":
                self.suspended()
            case "broken connection":
                raise CloudError("the connection broke repeatedly", hint="run the same command again")


class CrashingPort:
    """A port whose calls are counted and can end the process."""

    def __init__(self, port: Any, injector: CrashInjector) -> None:
        self._port = port
        self._injector = injector

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        return self._watched(name, found) if callable(found) else found

    def _watched(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **named: Any) -> Any:
            self._injector.count_call()
            response = method(*args, **named)
            if name in _WRITES:
                self._injector.wrote(f"{name} {args[0]}" if args and isinstance(args[0], str) else name)
            return response

        return called


class CrashingCloud(FakeCloud):
    """The account as the crashing process has it."""

    injector = CrashInjector()

    def cloud(self, region: str = "") -> Cloud:
        plain = super().cloud(region)
        ports = (
            *(
                "account",
                "hosting",
                "components",
                "scalers",
                "foreign_scaling",
                "schedules",
                "tagged",
                "logs",
                "images",
            ),
            *("jobs", "optimizations", "dashboards", "alarms"),
        )
        watched = {name: CrashingPort(getattr(plain, name), self.injector) for name in ports}
        return Cloud(
            caller=plain.caller,
            metrics=plain.metrics,
            events=plain.events,
            prices=plain.prices,
            limits=plain.limits,
            roles=plain.roles,
            iam_setup=plain.iam_setup,
            secrets=plain.secrets,
            topics=plain.topics,
            **cast(Any, watched),
        )

    def opened(self, bucket: str) -> ObjectStore:
        return cast(ObjectStore, CrashingPort(super().opened(bucket), self.injector))

    def without_crashes(self, bucket: str) -> BucketServices:
        """The bucket as another process has it, without crashes."""
        injector, self.injector = self.injector, CrashInjector(asleep=True)
        bucket_services = self.depot(FakeCloud.cloud(self), bucket)
        self.injector = injector
        assert bucket_services is not None
        return bucket_services
