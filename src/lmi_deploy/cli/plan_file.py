"""Plans in files: the observed state, and the actions for it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from lmi_deploy.cli.output_files import writing
from lmi_deploy.errors import UsageRefused
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.deployment_plan import DeploymentPlan
from lmi_deploy.workflows.saved_plan import read_plan, resume, saved_plan

PLAN_SUFFIX: Final = ".json"


def save(deployment: DeploymentPlan, path: str) -> None:
    """Readable only by its owner: a plan contains the user's own code and settings."""
    if not path.endswith(PLAN_SUFFIX):
        raise UsageRefused(
            f"--out {path}: the name of a plan file must end with {PLAN_SUFFIX}",
            hint=f"--out plan{PLAN_SUFFIX}",
        )
    text = saved_plan(deployment)
    with writing(path):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)


def load_plan(path: str, deps: Dependencies, *, probe: bool) -> DeploymentPlan:
    """Refused if the observed state differs from that of the plan."""
    try:
        text = Path(path).read_bytes()
    except OSError as reason:
        raise UsageRefused(f"{path}: {reason.strerror}", hint="`lmi plan --out FILE` writes one") from None
    return resume(read_plan(text, path), deps, probe=probe)
