"""This machine: which runtime, which port, which device."""

from __future__ import annotations

from lmi_deploy.domain.deployment_spec import WeightsSpec
from lmi_deploy.domain.gathered_facts import Facts, Machine
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.target_spec import LocalPlace
from lmi_deploy.errors import Unresolvable
from lmi_deploy.planning.default_timeouts import startup_timeout
from lmi_deploy.targets.local.runtime_selection import runtime_of

LOCAL_HOST = "127.0.0.1"


def place_of(recipe: Recipe, facts: Facts, weights: WeightsSpec) -> LocalPlace:
    machine, port = facts.machine, recipe.endpoint.port or facts.port
    if machine is None or port is None:
        raise Unresolvable(
            "endpoint.target: local, but this machine was not inspected", hint="this is a bug of lmi"
        )
    device, memory = device_of(machine)
    runtime = runtime_of(recipe, facts.runtimes)
    return LocalPlace(
        runtime=runtime,
        host=LOCAL_HOST,
        port=port,
        device=device,
        device_memory=memory,
        startup_timeout=startup_timeout(recipe.timeouts, weights.size),
        environment=recipe.container.environment,
        image=(recipe.container.image or "") if runtime == "container" else "",
    )


def device_of(machine: Machine) -> tuple[str, int]:
    """The device that a model runs on, and the bytes available to it there."""
    accelerators = machine.accelerators
    if not accelerators:
        return "CPU", machine.memory
    name = accelerators[0][0]
    return f"{len(accelerators)} x {name}", sum(size for _, size in accelerators)
