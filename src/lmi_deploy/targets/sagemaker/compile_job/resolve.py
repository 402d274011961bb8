"""The machine and the image of a compile job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lmi_deploy.catalog import sagemaker_limits
from lmi_deploy.catalog.instances import instance
from lmi_deploy.domain.deployment_spec import EngineSpec, WeightsSpec
from lmi_deploy.domain.gathered_facts import Facts
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.sagemaker.resource_settings import Placement
from lmi_deploy.domain.target_spec import CompilePlace, SageMakerPlace
from lmi_deploy.errors import Unresolvable
from lmi_deploy.planning.compilation import compile_spec, compiler_of
from lmi_deploy.targets.sagemaker.roles import JOB_ROLE, role_arn

CPU_INSTANCE: Final = "ml.c5.4xlarge"
"""Where the serving type is none of a processing job: Inferentia and Trainium. AWS compiles for Inf1 on this family
(aws-neuron-sdk, neuron-deploy guides)."""
TIMEOUT: Final = 4 * 3600
_VOLUME_GB: Final = 30
_COPIES: Final = 4
"""Of the weights on the disk: the model, the result, what is unpacked on the way, and room."""
_MOST_GB: Final = 16_384


def compile_place(
    recipe: Recipe, facts: Facts, *, weights: WeightsSpec, engine: EngineSpec, place: SageMakerPlace
) -> CompilePlace | None:
    """None if nothing is compiled. `place` is where the result will serve."""
    requested, cloud = recipe.compile, facts.cloud
    if requested is None or cloud is None or facts.compiled is not None:
        return None
    image = requested.image or place.image
    chosen = _instance(recipe, place.placements)
    what = compile_spec(
        recipe,
        facts,
        weights,
        engine,
        image=image.partition("/")[2] or image,
        device=_device(recipe, chosen),
    )
    return CompilePlace(
        what=what,
        image=image,
        role=role_arn(requested.role, cloud, default=JOB_ROLE, key="compile.role"),
        instance=chosen,
        volume_gb=min(_MOST_GB, _VOLUME_GB + _COPIES * weights.size // 10**9),
        timeout=requested.timeout or TIMEOUT,
    )


def _instance(recipe: Recipe, placements: Sequence[Placement]) -> str:
    """The recipe's; else the one that will serve, so that a result for its GPU fits; else a CPU."""
    is_optimized = compiler_of(recipe) == "optimization"
    possible = sagemaker_limits.names("optimization_instance_types" if is_optimized else "job_instance_types")
    requested = recipe.compile.instance_type if recipe.compile else None
    serving = next((p.instance for p in placements if p.instance in possible), "")
    if requested and requested not in possible:
        kind = "an optimization job" if is_optimized else "a processing job"
        raise Unresolvable(
            f"compile.instance_type: SageMaker has no {requested} for {kind}, which compiles this model",
            hint=f"use {serving or CPU_INSTANCE}, or omit it",
        )
    if is_optimized and not (requested or serving):
        raise Unresolvable(
            f"compile: SageMaker compiles no models of engine {recipe.engine} for {placements[0].instance}",
            hint="choose another instance_type, or write your own compile.script",
        )
    return requested or serving or CPU_INSTANCE


def _device(recipe: Recipe, chosen: str) -> str:
    """A sharded checkpoint, and Neuron's graphs of one generation, do not depend on it."""
    if recipe.engine in ("lmi-dist", "deepspeed", "fastertransformer") and compiler_of(recipe) != "script":
        return ""
    machine = instance(chosen)
    accelerators = machine.accelerators if machine else None
    return accelerators.name if accelerators else ""
