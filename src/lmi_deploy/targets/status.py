"""Compare a deployment with its record: in sync, drifted, absent, starting, or failed and why; one file per target."""

from __future__ import annotations

from lmi_deploy.domain.observed import CloudObserved, LocalObserved, Observed
from lmi_deploy.domain.record import DeploymentStatus
from lmi_deploy.targets.local import status as local_status
from lmi_deploy.targets.sagemaker import status as sagemaker_status


def status_of(observed: Observed) -> tuple[DeploymentStatus, str]:
    """The state, and the reason if it is not in sync."""
    match observed:
        case LocalObserved():
            return local_status.status_of(observed)
        case CloudObserved():
            return sagemaker_status.status_of(observed)


def other_location_text(observed: CloudObserved) -> str:
    """Other locations in which this machine deployed the same name, as the end of a sentence; empty if there are
    none.
    """
    return sagemaker_status.other_location_text(observed)


def unattended(observed: Observed) -> str:
    """Why `lmi gc` may delete it; empty if it may not."""
    return sagemaker_status.unattended(observed) if isinstance(observed, CloudObserved) else ""


def missing_parts(observed: Observed, *, replaced: bool) -> str:
    """Config and models that were deleted under the endpoint. `replaced`: it is deleted and created again for that."""
    if not isinstance(observed, CloudObserved) or not (words := sagemaker_status.missing_words(observed)):
        return ""
    if not replaced:
        return words
    name = observed.ref.name
    return (
        f"{words}. This plan has other settings: it deletes the endpoint {name} and creates it again, and {name} "
        "answers nothing meanwhile. To update without that, run `lmi up` with the recipe that serves first"
    )


def failed_update_reason(observed: Observed) -> str:
    """What an earlier `up` was deploying, and why it does not serve; empty if there is none."""
    match observed:
        case LocalObserved():
            return ""
        case CloudObserved(endpoint=endpoint, record=record, not_owned_reason=foreign):
            if endpoint is None or record is None or foreign:
                return ""
            return sagemaker_status.failed_update_reason(endpoint, record)
