"""What `lmi status` shows of a deployment beside its state."""

from __future__ import annotations

from dataclasses import dataclass

from lmi_deploy.domain.observed_state import ObservedServer
from lmi_deploy.domain.sagemaker.resource_settings import ObservedEndpoint
from lmi_deploy.domain.sagemaker.transfer_job import ObservedJob


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusDetails:
    """Each target fills in what it has."""

    address: str = ""
    server: ObservedServer | None = None
    endpoint: ObservedEndpoint | None = None
    components: tuple[str, ...] = ()
    """The inference components that its requests may name; empty for an endpoint of its own."""
    jobs: tuple[ObservedJob, ...] = ()
    """Transfer and compile jobs that have machines."""
    scaling: str = ""
    """How the number of instances or copies is scaled, as registered; in words."""
    alarms: str = ""
    """The state of each of its alarms, by CloudWatch; in words."""
    expires: str = ""
    """When `lmi gc` may delete it; ISO 8601."""
    expired: bool = False
    """Whether that was before now."""
    scheduled: bool = False
    """Whether AWS deletes it then, with no lmi running."""
