"""How a target writes a deployment as a stack of another tool: one implementation a target that can."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.plan import Plan
from lmi_deploy.domain.sagemaker.exported_stack import RequiredObjects, StackFormat
from lmi_deploy.targets.target import Hubs, Perform


@dataclass(frozen=True, slots=True, kw_only=True)
class StackText:
    """A stack as text, its resources by type, and the names of its parameters."""

    text: str
    resources: tuple[str, ...]
    parameters: tuple[str, ...]
    without_default: tuple[str, ...]
    """The parameters that must be given when the stack is applied."""
    objects: tuple[RequiredObjects, ...]


class StackExporter(Protocol):
    def export(
        self, spec: Spec, artifact: Artifact, stack_format: StackFormat, *, with_environment: bool
    ) -> StackText:
        """Without a request. `with_environment`: with the values of `container.environment`. Refused for what the
        format cannot express.
        """

    def upload_plan(self, spec: Spec, artifact: Artifact, hubs: Hubs) -> Plan:
        """What puts the objects of the stack into the bucket: reads only; empty if all of them are there."""

    def upload_actions(self, spec: Spec, artifact: Artifact, hubs: Hubs) -> Perform:
        """The writes of such a plan."""
