"""A target of an artifact."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, Protocol

from lmi_deploy.domain.artifact import Artifact
from lmi_deploy.domain.events import Event
from lmi_deploy.domain.inference_http import HttpRequest, ResponseHead
from lmi_deploy.domain.observed import Inventory, Observed
from lmi_deploy.domain.plan import Action
from lmi_deploy.domain.record import DeploymentRef, Record
from lmi_deploy.domain.spec import Spec
from lmi_deploy.ports.hub import Hub

Outcome = str
"""The result of an action in a few words, for the record."""
Perform = Mapping[type[Action], Callable[[Any], Generator[Event, None, Outcome]]]
"""The function for each kind of action; its keys are the members of the action union that the target uses."""


class Target(Protocol):
    def observe(self, ref: DeploymentRef) -> Observed:
        """The current state of the deployment: reads only."""

    def inspect(self, ref: DeploymentRef) -> Observed:
        """The same, plus whether the files exist from which an instance that starts now would load the model."""

    def read_record(self, ref: DeploymentRef) -> Record | None:
        """Its record alone, which is cheaper than a look at all of it."""

    def confirm(self, observed: Observed) -> Observed:
        """With each resource looked up directly, not in a search that lags: for a plan that changes something."""

    def observe_all(self, ref: DeploymentRef) -> Observed:
        """The same, plus everything that a teardown needs, each resource looked up directly."""

    def inventory(self, spec: Spec, hub: Hub) -> Inventory:
        """What already exists around the deployment: reads only."""

    def with_prices(self, spec: Spec, inventory: Inventory) -> Inventory:
        """With its cost: requested only for a plan that changes something."""

    def list_known(self) -> tuple[DeploymentRef, ...]:
        """Every deployment that can be found here."""

    def remember(self, ref: DeploymentRef) -> None:
        """Note on this machine that it is deployed from here: before anything is created, so that an unwritable home
        stops an `up` (DiskRefused) before it costs anything.
        """

    def deploy_actions(self, spec: Spec, artifact: Artifact, hub: Hub) -> Perform:
        """The actions that deploy a spec, including those of a teardown."""

    def teardown_actions(self, ref: DeploymentRef) -> Perform:
        """The writes that need no spec: those of a teardown, of waiting and of going back."""

    def invoke(
        self, ref: DeploymentRef, request: HttpRequest, *, timeout: float
    ) -> Iterator[ResponseHead | bytes]:
        """Send one request to the deployment's address: the head, then the body as it arrives."""

    def address(self, ref: DeploymentRef) -> str:
        """Its URL for invocations. NotFound if it was never deployed."""

    def logs(self, ref: DeploymentRef, *, follow: bool) -> Iterator[str]:
        """Lines of the serving process, oldest first; with `follow` until the caller stops."""
