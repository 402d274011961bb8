"""Recipe and facts to a Spec: every choice is made here, and an error shows the calculation."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from lmi_deploy.catalog.instances import device_count
from lmi_deploy.catalog.options import IMAGE_TEMPLATE
from lmi_deploy.catalog.server_version import server_version
from lmi_deploy.domain.deployment_spec import (
    EngineSpec,
    HandlerSpec,
    Inputs,
    ModelSpec,
    Spec,
    WeightsSpec,
)
from lmi_deploy.domain.gathered_facts import Facts, ModelListing
from lmi_deploy.domain.inference_http import InferenceRequest, ProbeSpec
from lmi_deploy.domain.recipe_keys import Handler, Pairs, Recipe, Task
from lmi_deploy.domain.target_spec import Place
from lmi_deploy.engines.engine import EngineInputs, InferenceEngine
from lmi_deploy.engines.registry import ENGINES
from lmi_deploy.engines.vllm.engine import SERVICE as VLLM_SERVICE
from lmi_deploy.errors import Unresolvable
from lmi_deploy.planning.additional_models import additional_models, with_adapter_options, with_draft_slot
from lmi_deploy.planning.compilation import with_compiled_options
from lmi_deploy.planning.default_timeouts import loading_timeout
from lmi_deploy.planning.file_selection import files_of, require_shards
from lmi_deploy.planning.image_build import with_built_image
from lmi_deploy.planning.task_detection import architecture_of, detect_task, refuse_unusual
from lmi_deploy.sizing.neuron_pipeline import neuron_degree
from lmi_deploy.sizing.tensor_parallel_degree import degree_of

PREDICT_TIMEOUT = 60
"""Seconds: SageMaker cancels a real-time invocation then; a higher value would only hide that on other targets."""
_CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length")


PlaceOf = Callable[[Recipe, Facts, WeightsSpec, EngineSpec], Place]


def resolve(recipe: Recipe, facts: Facts, place_of: PlaceOf) -> Spec:
    """Pins commit, files, handler, packages, address and probe. Raises Unresolvable.

    `place_of` is the target's part of it.
    """
    _refuse_remote_code(recipe, facts)
    recipe = with_built_image(recipe, facts)
    if recipe.handler.file is None:
        refuse_unusual(facts.listing)
    recipe = with_adapter_options(_with_vision_template(recipe, facts), facts)
    if facts.compiled:
        recipe = with_compiled_options(recipe, facts.compiled.properties)
    weights = _compiled(facts.compiled.listing) if facts.compiled else _own_files(recipe, facts)
    weights = replace(weights, additional=additional_models(recipe, facts))
    model = _model(recipe, facts)
    is_neuron = recipe.engine == "neuron"
    degree = neuron_degree(recipe, facts.config) if is_neuron else degree_of(recipe, facts.config)
    module = ENGINES[recipe.engine]
    engine_spec = _engine(recipe, weights, model, module, degree=degree)
    return Spec(
        name=recipe.name,
        model=model,
        engine=engine_spec,
        weights=weights,
        inputs=Inputs(
            model_py=facts.model_py or b"",
            requirements=facts.requirements or b"",
            extra=tuple(sorted(facts.extra_files)),
        ),
        probe=replace(
            probe_of_recipe(recipe, module, engine_spec.handler, model.task),
            adapters=tuple(adapter.name for adapter in weights.adapters),
        ),
        place=place_of(recipe, facts, weights, engine_spec),
    )


def _own_files(recipe: Recipe, facts: Facts) -> WeightsSpec:
    weights = files_of(recipe, facts.listing)
    require_shards(weights, facts.shards, recipe.files)
    if facts.in_place is None:
        return weights
    # The container gets every object under the prefix: none can be left out.
    everything = tuple(sorted(facts.listing.files, key=lambda file: file.path))
    return WeightsSpec(files=everything, left_out=(), in_place=facts.in_place)


def _compiled(listing: ModelListing) -> WeightsSpec:
    """All files: the compiler wrote them to be served."""
    files = tuple(sorted(listing.files, key=lambda file: file.path))
    return WeightsSpec(files=files, left_out=(), compiled=listing.commit)


def _model(recipe: Recipe, facts: Facts) -> ModelSpec:
    positions = next((facts.config[key] for key in _CONTEXT_KEYS if type(facts.config.get(key)) is int), None)
    return ModelSpec(
        model_id=facts.listing.model_id,
        revision=recipe.revision,
        commit=facts.listing.commit,
        source=facts.listing.source,
        task=recipe.task or detect_task(facts.listing, facts.config).task,
        architecture=architecture_of(facts.config) or None,
        max_positions=positions,
    )


def _engine(
    recipe: Recipe, weights: WeightsSpec, model: ModelSpec, module: InferenceEngine, *, degree: int
) -> EngineSpec:
    version, _ = server_version(recipe.container.version, recipe.container.image)
    handler = module.handler(recipe.handler, model.task, version=version)
    # Clients use the model's own name, not the folder of its weights, or vLLM's `lmi`.
    by_name = (
        handler.template or handler.entry_point == VLLM_SERVICE or recipe.engine in ("vllm-server", "sglang")
    ) and model.source == "hub"
    named = (("served_model_name", model.model_id),) if by_name else ()
    if recipe.engine == "neuron":
        named = (("workers", str(max(1, device_count(recipe) // degree))),)
    given = with_draft_slot(recipe.options) if weights.draft else recipe.options
    # On a shared endpoint a change of the adapters must not change the model.
    size = weights.size_without_adapters if recipe.endpoint.share else weights.total_size
    options = (*_option_pairs(recipe, size), *named, *given)
    inputs = EngineInputs(handler, options, task=model.task, tensor_parallel_degree=degree, version=version)
    lines = module.properties(inputs)
    return EngineSpec(
        name=recipe.engine,
        tensor_parallel_degree=degree,
        handler=handler,
        properties=_with_properties(lines, recipe.properties),
        packages=module.packages(handler),
    )


def _option_pairs(recipe: Recipe, size: int) -> Pairs:
    """The recipe's own keys as server properties."""
    pairs = [("predict_timeout", str(recipe.timeouts.predict or PREDICT_TIMEOUT))]
    pairs.append(("model_loading_timeout", str(loading_timeout(recipe.timeouts, size))))
    if recipe.trust_remote_code:
        pairs.append(("trust_remote_code", "true"))
    if recipe.files.allow_pickle:
        pairs.append(("trust_insecure_model_files", "true"))
    return tuple(pairs)


def _with_properties(lines: Pairs, properties: Pairs) -> Pairs:
    """The recipe's plain keys replace ours of the same name in place; the others follow."""
    given = dict(properties)
    kept = tuple((key, given.pop(key, value)) for key, value in lines)
    return (*kept, *given.items())


def probe_of_recipe(
    recipe: Recipe, module: InferenceEngine, handler: HandlerSpec, task: Task | None
) -> ProbeSpec:
    """The recipe's own, or the default of engine and task. Unresolvable if there is neither."""
    requested = recipe.probe
    expect = (requested.expect if requested else None) or ""
    if requested and requested.body is not None:
        return ProbeSpec(prompt="", body=requested.body, content_type=requested.content_type, expect=expect)
    inference_request = module.probe(handler, task)
    if requested and requested.prompt is not None:
        inference_request = InferenceRequest(
            prompt=requested.prompt, parameters=inference_request.parameters if inference_request else {}
        )
    if inference_request is None:
        raise Unresolvable(
            f"probe: missing; engine {recipe.engine} with task {task or 'unknown'} has no default probe",
            hint='write for example probe: {body: \'{"inputs": "OK"}\'}; `up` sends it at the end',
        )
    request = module.encode(inference_request, handler, task)
    content_type = dict(request.headers).get("Content-Type", "application/json")
    return ProbeSpec(
        prompt=inference_request.prompt, body=request.body.decode(), content_type=content_type, expect=expect
    )


def _with_vision_template(recipe: Recipe, facts: Facts) -> Recipe:
    """transformers loads a vision-language model by another class than one of text, so it needs another handler."""
    if (
        recipe.engine != "accelerate"
        or recipe.handler != Handler()
        or recipe.task not in (None, "text-generation")
    ):
        return recipe
    if detect_task(facts.listing, facts.config).kind != "vision-language":
        return recipe
    return replace(recipe, handler=Handler(template=IMAGE_TEMPLATE))


def _refuse_remote_code(recipe: Recipe, facts: Facts) -> None:
    named = facts.config.get("auto_map")
    if named and not recipe.trust_remote_code:
        classes = json.dumps(named)[:100]
        raise Unresolvable(
            f"{facts.listing.model_id} contains its own code ({classes}), which would run on your server",
            hint="read the code at the commit that `revision` pins, then set trust_remote_code: true",
        )
