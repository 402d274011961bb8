"""What differs between a spec and the world, as a plan; one file a place."""

from __future__ import annotations

from lmi_deploy.core.artifact import Artifact
from lmi_deploy.core.plan import Plan
from lmi_deploy.core.record import Held, Observed
from lmi_deploy.core.spec import LocalPlace, Spec
from lmi_deploy.decide.diff import local

__all__ = ["diff", "teardown"]

teardown = local.teardown


def diff(spec: Spec, artifact: Artifact, observed: Observed, held: Held) -> Plan:
    """The actions that make the world what `spec` says; none when it is so already."""
    match spec.place:
        case LocalPlace():
            return local.diff(spec, artifact, observed, held)
