"""A place where an artifact runs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, Protocol

from lmi_deploy.core.artifact import Artifact
from lmi_deploy.core.events import Event
from lmi_deploy.core.exchange import Head, HttpRequest
from lmi_deploy.core.plan import Action
from lmi_deploy.core.record import DeploymentRef, Observed
from lmi_deploy.core.spec import Spec

Outcome = str
"""A few words for the record: what came of an action."""
Perform = Mapping[type[Action], Callable[[Any], Generator[Event, None, Outcome]]]
"""What carries out each kind of action; its keys are the members of the action union that the target uses."""


class Target(Protocol):
    def observe(self, ref: DeploymentRef) -> Observed:
        """The deployment as it is now: reads only."""

    def known(self) -> tuple[DeploymentRef, ...]:
        """Every deployment that can be found here."""

    def performers(self, spec: Spec | None, artifact: Artifact | None) -> Perform:
        """The writes; `spec` and `artifact` are None for a teardown."""

    def invoke(self, ref: DeploymentRef, request: HttpRequest) -> Iterator[Head | bytes]:
        """Send one request to the deployment's address: the head, then the body as it comes."""

    def logs(self, ref: DeploymentRef, *, follow: bool) -> Iterator[str]:
        """Lines of the serving process, oldest first; with `follow` until the caller stops."""
