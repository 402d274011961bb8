"""A token for an endpoint's own OpenAI API."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from lmi_deploy.domain.recipe_key_types import Seconds
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.targets.target import AccessToken
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.extend import read_duration
from lmi_deploy.workflows.invoke import require_serving, served_ref

LIMITS: Final = Seconds(60, 12 * 3600)
"""The most is SageMaker's."""


def access_token(ref: DeploymentRef, duration: str, deps: Dependencies) -> tuple[AccessToken, str]:
    """The token, and when it ends, ISO 8601. NotFound if the deployment does not answer requests."""
    seconds = read_duration(duration, LIMITS)
    ref = served_ref(ref, require_serving(ref, deps))
    ends = deps.clock.now() + timedelta(seconds=seconds)
    return deps.targets[ref.target].access_token(ref, seconds), ends.isoformat(timespec="seconds")
