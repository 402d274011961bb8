"""What every action of a plan says of itself."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from lmi_deploy.domain.settings_digest import digest_tag


class Phase(StrEnum):
    """The part of a deployment that an action belongs to."""

    BOOTSTRAP = "bootstrap"
    """Before the lock and the record, which are stored in what it creates."""
    STORE = "store"
    """Engine, environment, weights and artifact are where the server reads them."""
    CREATE = "create"
    """Resources that a server is started from; they cost nothing."""
    START = "start"
    """An engine loads the model."""
    WAIT = "wait"
    PROBE = "probe"
    SWITCH = "switch"
    """The deployment's address leads to another server."""
    CONFIGURE = "configure"
    """Scaling, tags and expiry of an endpoint that serves."""
    STOP = "stop"
    """A server or an endpoint ends."""
    CLEANUP = "cleanup"
    """What nothing uses any more is removed."""

    @property
    def removes(self) -> bool:
        return self in (Phase.STOP, Phase.CLEANUP)


def in_brackets(variant: str) -> str:
    """The end of a title: of a deployment with a candidate, which version the action is for; empty without one."""
    return f" ({variant})" if variant else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionBase:
    """The first field of an action names its object."""

    kind: ClassVar[str]
    """Its name in plans, events and records. Those written before must be read: a class with a new name keeps its kind
    by declaring it.
    """
    phase: ClassVar[Phase]
    verb: ClassVar[str]
    """The start of its title, in front of its object; without one it has a title of its own."""
    binding: ClassVar[bool] = False
    """Whether it costs money, deletes requested resources, or changes which server answers: it may only be done if the
    user has seen it. All other actions are free, and may differ from one look to the next: the tag search lags.
    """
    starts_code: ClassVar[bool] = False
    """Whether the handler of the artifact runs as a consequence."""
    can_wait: ClassVar[bool] = False
    """Whether a teardown goes on when it fails: what costs more is deleted, and the error reported at the end."""

    def __init_subclass__(cls) -> None:
        cls.kind = cls.__dict__.get("kind", cls.__name__)
        digest_tag(cls.kind)(cls)

    @property
    def removes(self) -> bool:
        """Whether a plan marks it as a removal: as its title says, also in a phase that creates and changes."""
        return self.phase.removes or self.title.startswith(("remove ", "stop ", "delete "))

    @property
    def title(self) -> str:
        """The action in a few words, for people."""
        return f"{self.verb} {self.subject}"

    @property
    def subject(self) -> str:
        """The name of its object."""
        return str(getattr(self, dataclasses.fields(self)[0].name))

    @property
    def key(self) -> str:
        """Its name in events, unique within a plan."""
        return f"{self.kind}:{self.subject}"
