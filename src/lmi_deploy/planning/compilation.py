"""What an ahead-of-time compile of a recipe is made from, and how its result changes what is served."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lmi_deploy.domain.compile import Compiler, CompileSpec
from lmi_deploy.domain.deployment_artifact import SLOT
from lmi_deploy.domain.deployment_spec import EngineSpec, WeightsSpec
from lmi_deploy.domain.gathered_facts import Facts
from lmi_deploy.domain.recipe_keys import Engine, Pairs, Recipe

OPTIMIZED: Final[tuple[Engine, ...]] = ("lmi-dist", "neuronx", "tensorrt-llm")
"""Engines for which SageMaker has optimization jobs: it shards for lmi-dist, and compiles for the others."""
_OPTION: Final = "option."
_AT_RUN_TIME: Final = frozenset(
    {
        *("entryPoint", "model_id", "s3url", "predict_timeout", "model_loading_timeout", "served_model_name"),
        *(
            "enable_streaming",
            "output_formatter",
            "max_rolling_batch_prefill_tokens",
            "trust_insecure_model_files",
        ),
        *("gpu_memory_utilization", "max_tokens", "log_request", "parallel_loading"),
    }
)
"""Options that no compiler reads. Every other one counts: a needless compile costs less than a wrong result."""
_OF_THE_COMPILER: Final = frozenset(
    {
        *(
            "entryPoint",
            "model_id",
            "model_dir",
            "s3url",
            "save_mp_checkpoint_path",
            "upload_checkpoints_s3url",
        ),
        *("properties_dir", "tensor_parallel_degree", "predict_timeout", "model_loading_timeout", "task"),
    }
)
"""Options of the serving.properties in a result that name the compiler's own folders, or that the recipe decides."""


def compiler_of(recipe: Recipe) -> Compiler:
    """Of a recipe with `compile`."""
    if recipe.compile and recipe.compile.script:
        return "script"
    return "optimization" if recipe.engine in OPTIMIZED else "partition"


def compile_spec(
    recipe: Recipe, facts: Facts, weights: WeightsSpec, engine: EngineSpec, *, image: str, device: str
) -> CompileSpec:
    """`image` without its registry; `device` is the GPU that compiles, empty for none."""
    requested, compiler = recipe.compile, compiler_of(recipe)
    return CompileSpec(
        weights=f"{facts.listing.commit}-{weights.selection}",
        engine=recipe.engine,
        compiler=compiler,
        image=image,
        device=device,
        script=facts.compile_script or b"",
        requirements=facts.compile_requirements or b"",
        arguments=requested.arguments if requested else (),
        options=() if compiler == "script" else compiler_options(engine),
    )


def compiler_options(engine: EngineSpec) -> Pairs:
    """The options that decide the result of the engine's own compiler, sorted by name, without the prefix."""
    named = (
        (key.removeprefix(_OPTION), value) for key, value in engine.properties if key.startswith(_OPTION)
    )
    return tuple(
        sorted((key, value) for key, value in named if key not in _AT_RUN_TIME and SLOT not in value)
    )


def with_compiled_options(recipe: Recipe, written: Pairs) -> Recipe:
    """With the options that the compiler wrote into the serving.properties of its result; the recipe's go first."""
    own = dict(recipe.options)
    added = [
        (name, value)
        for key, value in written
        if (name := key.removeprefix(_OPTION)) != key and name not in own and name not in _OF_THE_COMPILER
    ]
    return replace(recipe, options=(*recipe.options, *added))
