"""A spec of another target, tried on this machine before anything costs money."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from typing import Final

from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.gathered_facts import Machine
from lmi_deploy.domain.observed_state import LocalInventory
from lmi_deploy.domain.recipe_endpoint_keys import RuntimeName
from lmi_deploy.domain.settings_digest import digest, short
from lmi_deploy.domain.target_spec import LocalPlace
from lmi_deploy.errors import EXTRAS, NotInstalled, Unresolvable
from lmi_deploy.targets.local.resolve import LOCAL_HOST, device_of
from lmi_deploy.targets.local.runtime_selection import can_run

_RUNTIME: Final[RuntimeName] = "embedded"
_NEEDED: Final = "psutil"
"""What the model server imports besides lmi's own dependencies."""
STARTUP: Final = 1800
"""Seconds: a processor loads a model more slowly than its intended device."""


def lacking(spec: Spec, inventory: Callable[[], LocalInventory]) -> str:
    """Why a try would cost more than its time, in words; empty if everything for it is on this machine."""
    if not _can_try(spec):
        return f"lmi cannot run engine {spec.engine.name} on this machine"
    present = inventory()
    missing = {
        f"{_NEEDED} (lmi's extra [{EXTRAS[_NEEDED]}])": find_spec(_NEEDED) is None,
        "DJL's Python engine": not present.engine,
        "the serving environment": not present.environment,
        "the weights": present.missing_weights > 0,
    }
    words = [what for what, lacks in missing.items() if lacks]
    return f"not on this machine yet: {', '.join(words)}" if words else ""


def _can_try(spec: Spec) -> bool:
    """Without packages of its own an engine is another program here than in its image."""
    return can_run(_RUNTIME, spec.engine.name) and bool(spec.engine.packages)


def trial_spec(spec: Spec, artifact: Artifact, machine: Machine) -> Spec:
    """The same spec on this machine, under a name that no recipe's deployment has. Unresolvable if its engine does
    not run here.
    """
    if not _can_try(spec):
        raise Unresolvable(
            f"--check-handler: lmi cannot run engine {spec.engine.name} on this machine",
            hint="omit --check-handler; lmi still checks the syntax tree of model.py",
        )
    if find_spec(_NEEDED) is None:
        raise NotInstalled(_NEEDED)
    device, memory = device_of(machine)
    place = LocalPlace(
        runtime=_RUNTIME,
        host=LOCAL_HOST,
        port=0,  # the server chooses a free one: two simultaneous dry runs may choose the same
        device=device,
        device_memory=memory,
        startup_timeout=STARTUP,
        environment=(),
        packages=spec.engine.packages,
    )
    return replace(spec, name=f"check-{short(digest([spec.name, artifact.digest]))}", place=place)
