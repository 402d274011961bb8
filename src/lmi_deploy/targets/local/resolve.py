"""This machine: which runtime, which port, which device."""

from __future__ import annotations

from dataclasses import replace

from lmi_deploy.domain.deployment_spec import EngineSpec, WeightsSpec, environment_name
from lmi_deploy.domain.environment_setup import PLAIN, LocalSetup
from lmi_deploy.domain.gathered_facts import Facts, Machine
from lmi_deploy.domain.recipe_endpoint_keys import RuntimeName
from lmi_deploy.domain.recipe_keys import Pairs, Recipe
from lmi_deploy.domain.target_spec import LocalCompilePlace, LocalPlace
from lmi_deploy.engines.registry import ENGINES
from lmi_deploy.errors import Unresolvable
from lmi_deploy.planning.compilation import compile_spec
from lmi_deploy.planning.default_timeouts import startup_timeout
from lmi_deploy.planning.image_build import image_build
from lmi_deploy.targets.local.runtime_selection import runtime_of

LOCAL_HOST = "127.0.0.1"
COMPILE_TIMEOUT = 4 * 3600
"""Seconds, as for a job on SageMaker."""


def place_of(recipe: Recipe, facts: Facts, weights: WeightsSpec, engine: EngineSpec) -> LocalPlace:
    machine, port = facts.machine, recipe.endpoint.port or facts.port
    if machine is None or port is None:
        raise Unresolvable(
            "endpoint.target: local, but this machine was not inspected", hint="this is a bug of lmi"
        )
    device, memory = device_of(machine)
    runtime = runtime_of(recipe, facts.runtimes)
    setup = setup_of(recipe, machine, engine, runtime)
    place = LocalPlace(
        runtime=runtime,
        host=LOCAL_HOST,
        port=port,
        device=device,
        device_memory=memory,
        startup_timeout=startup_timeout(recipe.timeouts, weights.total_size),
        environment=_environment(recipe.container.environment, engine, runtime, setup),
        packages=setup.packages,
        setup=setup.setup,
        image=(recipe.container.image or "") if runtime == "container" else "",
        build=image_build(recipe, facts) if runtime == "container" else None,
    )
    return replace(place, compile=_compile_place(recipe, facts, weights=weights, engine=engine, place=place))


def _compile_place(
    recipe: Recipe, facts: Facts, *, weights: WeightsSpec, engine: EngineSpec, place: LocalPlace
) -> LocalCompilePlace | None:
    """None if nothing is compiled. The script runs in the environment that serves, or in one of its own
    requirements alone.
    """
    requested = recipe.compile
    if requested is None or facts.compiled is not None:
        return None
    if requested.script is None:
        raise Unresolvable(
            f"compile: the compiler of engine {recipe.engine} is in its image, and does not run on this machine",
            hint="write your own compile.script, or use target sagemaker",
        )
    packages, setup = place.packages, place.setup
    requirements = (facts.requirements or b"").decode("utf-8", "replace")
    if facts.compile_requirements:
        packages, setup = (), PLAIN
        requirements = facts.compile_requirements.decode("utf-8", "replace")
    environment = environment_name(packages, requirements, setup)
    device = "" if place.device == "CPU" else place.device
    return LocalCompilePlace(
        what=compile_spec(recipe, facts, weights, engine, image=environment, device=device),
        environment=environment,
        packages=packages,
        requirements=requirements,
        setup=setup,
        timeout=requested.timeout or COMPILE_TIMEOUT,
    )


def setup_of(recipe: Recipe, machine: Machine, engine: EngineSpec, runtime: str) -> LocalSetup:
    """How the engine runs here. An image contains its own packages."""
    if runtime == "container":
        return LocalSetup(packages=engine.packages)
    return ENGINES[engine.name].local_setup(engine, recipe, machine)


def _environment(given: Pairs, engine: EngineSpec, runtime: RuntimeName, setup: LocalSetup) -> Pairs:
    """lmi's own server and an installed DJLServing are started by lmi, and need the variables of the engine alone."""
    own = setup.variables
    if runtime not in ("embedded", "djl-serving"):
        own = ENGINES[engine.name].environment(engine)
    return tuple((dict(own) | dict(given)).items())


def device_of(machine: Machine) -> tuple[str, int]:
    """The device that a model runs on, and the bytes available to it there."""
    accelerators = machine.accelerators
    if not accelerators:
        return "CPU", machine.memory
    name = accelerators[0][0]
    return f"{len(accelerators)} x {name}", sum(size for _, size in accelerators)
