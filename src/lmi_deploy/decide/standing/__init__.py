"""Is a deployment what its record says: in step, drifted, absent, starting, or failed and why; one file a place."""

from __future__ import annotations

from lmi_deploy.core.observed import CloudObserved, LocalObserved, Observed
from lmi_deploy.core.record import Standing
from lmi_deploy.decide.standing import local, sagemaker


def judge(observed: Observed) -> tuple[Standing, str]:
    """The standing, and the reason when it is not in step."""
    match observed:
        case LocalObserved():
            return local.judge(observed)
        case CloudObserved():
            return sagemaker.judge(observed)


def missed(observed: Observed) -> str:
    """What an earlier `up` was bringing, and why it does not serve; empty where there is no such thing."""
    match observed:
        case LocalObserved():
            return ""
        case CloudObserved(endpoint=endpoint, record=record, stranger=stranger):
            if endpoint is None or record is None or stranger:
                return ""
            return sagemaker.missed(endpoint, record)
