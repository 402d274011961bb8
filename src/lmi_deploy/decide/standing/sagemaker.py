"""An endpoint: AWS's own status, our tag, and the record."""

from __future__ import annotations

from lmi_deploy.core.observed import CloudObserved
from lmi_deploy.core.record import Standing


def judge(observed: CloudObserved) -> tuple[Standing, str]:
    """The standing, and the reason when it is not in step."""
    raise NotImplementedError
