"""Look a model up, choose engine, hardware and lengths for it, and write its recipe."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from lmi_deploy.catalog import instances, options
from lmi_deploy.domain.deployment_names import name_for
from lmi_deploy.domain.gathered_facts import ModelListing
from lmi_deploy.domain.number_text import gib_text
from lmi_deploy.domain.price_table import PriceTable
from lmi_deploy.domain.recipe_endpoint_keys import TargetName
from lmi_deploy.domain.recipe_key_types import Named
from lmi_deploy.domain.recipe_keys import Timeouts
from lmi_deploy.errors import LmiError, NoCredentials, Unresolvable, UsageRefused
from lmi_deploy.planning.default_timeouts import startup_timeout, startup_with_download
from lmi_deploy.planning.recipe_generation import (
    Choice,
    InitEngine,
    ModelSummary,
    decisions_left,
    engine_for,
    summarize,
    write_recipe,
)
from lmi_deploy.planning.task_detection import require_model
from lmi_deploy.recipe.model.scalar_type import InvalidValue
from lmi_deploy.recipe.model.scalar_types import scalar_type
from lmi_deploy.sizing.longest_context import USUAL_REGION
from lmi_deploy.sizing.vllm import LMI_SEQUENCES
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.fit import FitRequest
from lmi_deploy.workflows.gather_facts import read_json
from lmi_deploy.workflows.hardware_selection import Hardware, InitRequest, InstanceChoice, judge_this_machine
from lmi_deploy.workflows.price_refresh import current_prices
from lmi_deploy.workflows.safetensors_headers import checkpoint_of, listing_without_hashes

_SEQUENCES: Final = "max_rolling_batch_size"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeDraft:
    """A valid recipe; `name` is the name of its deployment, `notes` what the user should know beside it."""

    name: str
    text: str
    choice: Choice
    verdict: str
    notes: tuple[str, ...]


def generate_recipe(init_request: InitRequest, deps: Dependencies, *, schema: str) -> RecipeDraft:
    """Reads the repository's listing, its config.json and the headers of its weights. Unresolvable if it contains no
    model that lmi can deploy, or if nothing holds it.
    """
    model_id = _valid_id(init_request.model_id)
    hub = deps.hub(model_id)
    listing = listing_without_hashes(model_id, init_request.revision, hub)
    _require_model(listing, deps)
    model = summarize(
        replace(listing, model_id=init_request.written_id or model_id), read_json(hub, listing, "config.json")
    )
    init_request, target_notes = _with_target(init_request, deps)
    target = init_request.target or "local"
    can_run_vllm = _can_run_vllm(target, deps)
    engine = engine_for(model.recognition, init_request.engine, can_run_vllm=can_run_vllm)
    checkpoint = checkpoint_of(hub, listing)
    fit_request = _fit_request(init_request, engine, model_id)
    of_prices: tuple[str, ...] = ()
    if target == "sagemaker":
        prices = current_prices(init_request.region, deps)
        hardware = InstanceChoice(
            init_request=init_request, fit_request=fit_request, checkpoint=checkpoint, prices=prices
        ).make()
        of_prices = _price_warnings(prices, init_request.region, deps)
    else:
        hardware = judge_this_machine(fit_request, checkpoint, deps)
    choice = _choice(init_request, model, engine, hardware)
    text = write_recipe(
        model, choice, revision=init_request.revision, schema=schema, plain=init_request.plain
    )
    verdict = hardware.fit.verdict if hardware.fit else "unknown"
    unknown = hardware.why if verdict == "unknown" else ""
    reasons = filter(None, [hardware.unpriced, unknown])
    notes = (*target_notes, *of_prices, *reasons, *decisions_left(model))
    return RecipeDraft(
        name=name_for(model.listing.model_id), text=text, choice=choice, verdict=verdict, notes=notes
    )


def _price_warnings(prices: PriceTable, region: str, deps: Dependencies) -> tuple[str, ...]:
    return prices.warnings(deps.clock.now().date(), region if region in prices.regions else USUAL_REGION)


def _valid_id(model_id: str) -> str:
    try:
        return str(scalar_type(Named("model id")).read(model_id))
    except InvalidValue as wrong:
        hint = "write owner/name for the Hub, s3://bucket/prefix, or a folder that begins with ./ or /"
        raise UsageRefused(f"MODEL: {wrong.what}", hint=hint) from None


def _require_model(listing: ModelListing, deps: Dependencies) -> None:
    try:
        require_model(listing)
    except Unresolvable as refused:
        found = read_json(deps.hub(listing.model_id), listing, "adapter_config.json")
        if base := found.get("base_model_name_or_path"):
            refused.hint = f"{refused.hint}; `lmi init {base}` writes that recipe"
        raise


def _with_target(init_request: InitRequest, deps: Dependencies) -> tuple[InitRequest, list[str]]:
    """SageMaker where AWS credentials are found, else this machine; and a sentence that says so."""
    if init_request.target == "local":
        return init_request, []
    chosen = init_request.target == "sagemaker"
    try:
        region = init_request.region or deps.cloud("").caller.region
    except NoCredentials:
        if not chosen:
            note = "no AWS credentials found: the recipe is for this machine; for SageMaker add --target sagemaker"
            return replace(init_request, target="local"), [note]
        region = USUAL_REGION
    except LmiError as reason:
        region = USUAL_REGION
        if not chosen:
            note = f"AWS is configured but did not answer ({reason.message}): the recipe is for SageMaker in {region}"
            return replace(init_request, target="sagemaker", region=region), [note]
    note = (
        f"AWS credentials found: the recipe is for SageMaker in {region}; for this machine add --target local"
    )
    return replace(init_request, target="sagemaker", region=region), [] if chosen else [note]


def _can_run_vllm(target: TargetName, deps: Dependencies) -> bool:
    """vLLM is in LMI's images alone, and those need a GPU."""
    return target == "sagemaker" or (
        bool(deps.machine().accelerators) and "container" in deps.runtimes(None).names
    )


def _fit_request(init_request: InitRequest, engine: InitEngine, model_id: str) -> FitRequest:
    many = init_request.users is not None and init_request.users > LMI_SEQUENCES
    return FitRequest(
        model_id=model_id,
        engine=engine,
        version=options.newest_image(),
        instances=(init_request.instance,) if init_request.instance else (),
        context=init_request.context,
        sequences=init_request.users,
        options={_SEQUENCES: str(init_request.users)} if many else {},
    )


def _choice(init_request: InitRequest, model: ModelSummary, engine: InitEngine, found: Hardware) -> Choice:
    weights = model.weights or 0
    machine = instances.instance(found.instance) if found.instance else None
    if machine is not None:
        startup = startup_with_download(Timeouts(), machine, weights)
        network = f"{machine.network_gbps:g} Gbit/s" if machine.network_gbps else "the disk's speed"
        why = f"{gib_text(weights, 2)} at half of {network} from S3, and at 100 MB/s into the devices."
    else:
        startup = startup_timeout(Timeouts(), weights)
        why = f"{gib_text(weights, 2)} at 100 MB/s, and 120 s to start; at least 600 s."
    return Choice(
        target=init_request.target or "local",
        engine=engine,
        region=init_request.region,
        instance=found.instance,
        price=found.price,
        why=found.why,
        degree=found.degree,
        version=options.newest_image() if machine is not None or engine == "vllm" else "",
        options=tuple(_options(init_request, engine, found)),
        startup=startup,
        startup_why=why,
    )


def _options(init_request: InitRequest, engine: InitEngine, found: Hardware) -> list[tuple[str, str, str]]:
    chosen = []
    fit = found.fit
    if found.context and (engine == "vllm" or init_request.context):
        users = init_request.users or 1
        why = "Maximum number of tokens of a prompt and its response"
        if fit is not None and fit.kv_tokens:
            many = "one such sequence" if users == 1 else f"{users} such sequences"
            why += f": the KV cache has room for {fit.kv_tokens} tokens, enough for {many}"
        chosen.append(("max_model_len", str(found.context), f"{why}."))
    if engine == "vllm" and init_request.users and init_request.users > LMI_SEQUENCES:
        chosen.append(
            (_SEQUENCES, str(init_request.users), "Number of sequences that the server processes at once.")
        )
    return chosen
