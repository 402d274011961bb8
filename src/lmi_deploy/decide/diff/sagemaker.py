"""Target sagemaker: names hold digests, so what exists by name is what is wanted."""

from __future__ import annotations

from lmi_deploy.core.artifact import Artifact
from lmi_deploy.core.observed import CloudHeld, CloudObserved
from lmi_deploy.core.plan import Plan
from lmi_deploy.core.record import Generation
from lmi_deploy.core.spec import Spec


def diff(spec: Spec, artifact: Artifact, observed: CloudObserved, held: CloudHeld) -> Plan:
    """Refused where the endpoint of this name is not ours, or is being changed by somebody else."""
    raise NotImplementedError


def teardown(observed: CloudObserved) -> Plan:
    """The endpoint first, which costs money; then what only it needed."""
    raise NotImplementedError


def generation(
    spec: Spec, artifact: Artifact, plan: Plan, observed: CloudObserved, *, since: str
) -> Generation:
    """What the record keeps of it."""
    raise NotImplementedError


def summary(spec: Spec, artifact: Artifact) -> dict[str, str]:
    """A generation in the words of its recipe."""
    raise NotImplementedError
