"""The models that are served with the main one: LoRA adapters, and the draft model of speculative decoding."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from lmi_deploy.domain.deployment_artifact import DRAFT_SLOT, ArtifactCopy
from lmi_deploy.domain.deployment_spec import AdditionalModel, WeightsSpec
from lmi_deploy.domain.djl_serving import ADAPTERS_FOLDER
from lmi_deploy.domain.gathered_facts import AdapterFacts, DraftFacts, Facts, FileEntry
from lmi_deploy.domain.number_text import size_text
from lmi_deploy.domain.recipe_keys import ADAPTER_ENGINES, Pairs, Recipe
from lmi_deploy.domain.recipe_weights_keys import Files
from lmi_deploy.domain.speculative_decoding import SPECULATIVE_CONFIG, speculation_settings
from lmi_deploy.errors import Unresolvable
from lmi_deploy.planning.adapter_checks import require_adapters
from lmi_deploy.planning.file_selection import select

_REPOSITORY: Final = re.compile(r"s3://.+|\.{1,2}/.*|[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_][\w.-]*")
"""A Hub id with its owner, a prefix in S3 or a folder relative to the recipe. An absolute path is one in the
container.
"""
_ADAPTER_FILES: Final = ("adapter_config.json", "adapter_model.safetensors", "new_embeddings.safetensors")
_ADAPTER_PICKLES: Final = ("adapter_model.bin", "adapter_model.pt", "new_embeddings.bin")
"""What vLLM reads of an adapter (vllm/lora/lora_model.py, from_local_checkpoint, 0.26.0). DJLServing would also run a
model.py in the folder, which is not taken.
"""
_RANKS: Final = (8, 16, 32, 64, 128, 256, 320, 512)
"""The values of max_lora_rank that every vLLM accepts (vllm/config/lora.py)."""
_MOST_IN_A_BATCH: Final = 4
"""DJLServing's default of max_loras (vllm_rb_properties.py)."""
_SHARED_RANK: Final = 64
"""The least max_lora_rank of a model on a shared endpoint. There each adapter is a component of its own, and the
model's settings must not depend on which adapters it has: a later one would restart it. AWS's example of adapter
components has this rank and 4 adapters in a batch (AWS Machine Learning Blog, "Easily deploy and manage hundreds of
LoRA adapters with SageMaker efficient multi-adapter inference").
"""


class DraftSource(NamedTuple):
    """The repository that `speculative_config` names."""

    model_id: str
    revision: str


def draft_source(recipe: Recipe) -> DraftSource | None:
    """The draft model that lmi transfers; None if there is none, or if its location is one in the container."""
    table = speculation_settings(dict(recipe.options)) if recipe.engine == "vllm" else {}
    model, revision = table.get("model"), table.get("revision") or "main"
    if not (isinstance(model, str) and isinstance(revision, str) and _REPOSITORY.fullmatch(model)):
        return None
    return DraftSource(model, revision)


def with_draft_slot(options: Pairs) -> Pairs:
    """The options with the location of the draft model left open. Its revision is pinned by lmi."""
    table = {key: value for key, value in speculation_settings(dict(options)).items() if key != "revision"}
    text = json.dumps({**table, "model": DRAFT_SLOT})
    return tuple((key, text if key == SPECULATIVE_CONFIG else value) for key, value in options)


def with_adapter_options(recipe: Recipe, facts: Facts) -> Recipe:
    """With the options that the server needs to load the recipe's adapters; those that the recipe sets stay."""
    given = dict(recipe.options)
    shared = recipe.endpoint.share is not None
    prepared = shared and recipe.engine in ADAPTER_ENGINES and given.get("enable_lora") == "true"
    if not facts.adapters and not prepared:
        return recipe
    own = [("enable_lora", "true")]
    if recipe.engine != "custom":
        rank = max((_rank(adapter) for adapter in facts.adapters), default=0)
        rank = max(rank, _SHARED_RANK) if shared else rank
        count = _MOST_IN_A_BATCH if shared else min(len(facts.adapters), _MOST_IN_A_BATCH)
        own.append(("max_lora_rank", str(next((each for each in _RANKS if each >= rank), rank))))
        own.append(("max_loras", str(count)))
    more = tuple((key, value) for key, value in own if key not in given)
    return replace(recipe, options=(*recipe.options, *more))


def additional_models(recipe: Recipe, facts: Facts) -> tuple[AdditionalModel, ...]:
    """Adapters by name, then the draft model. Unresolvable for one that the engine would refuse."""
    require_adapters(recipe, facts)
    return tuple(_additional(recipe, facts))


def _additional(recipe: Recipe, facts: Facts) -> Iterator[AdditionalModel]:
    for adapter in sorted(facts.adapters, key=lambda each: each.name):
        yield AdditionalModel(
            role="adapter",
            name=adapter.name,
            model_id=adapter.listing.model_id,
            revision=adapter.revision,
            commit=adapter.listing.commit,
            source=adapter.listing.source,
            files=_adapter_files(adapter, pickles=recipe.files.allow_pickle),
        )
    if facts.draft is not None:
        yield _draft(recipe, facts.draft)


def _draft(recipe: Recipe, draft: DraftFacts) -> AdditionalModel:
    chosen = select(
        draft.listing, Files(allow_pickle=recipe.files.allow_pickle), remote_code=recipe.trust_remote_code
    )
    return AdditionalModel(
        role="draft",
        name="",
        model_id=draft.listing.model_id,
        revision=draft.revision,
        commit=draft.listing.commit,
        source=draft.listing.source,
        files=chosen.files,
    )


def copied_files(weights: WeightsSpec) -> tuple[ArtifactCopy, ...]:
    """The files of the adapters, where DJLServing looks for them in the artifact."""
    copied = (
        ArtifactCopy(
            path=f"{ADAPTERS_FOLDER}/{adapter.name}/{file.path}",
            source=file.path,
            size=file.size,
            oid=file.oid,
            weights=adapter.weights_name,
        )
        for adapter in weights.adapters
        for file in adapter.files
    )
    return tuple(sorted(copied, key=lambda file: file.path))


def additional_figures(weights: WeightsSpec) -> Pairs:
    """The size of each additional model, for the estimate beside a plan."""
    return tuple((each.title, size_text(each.size)) for each in weights.additional)


def _adapter_files(adapter: AdapterFacts, *, pickles: bool) -> tuple[FileEntry, ...]:
    present = {entry.path: entry for entry in adapter.listing.files}
    found = [present[path] for path in _ADAPTER_FILES if path in present]
    has_weights = "adapter_model.safetensors" in present
    if not has_weights:
        found += [present[path] for path in _ADAPTER_PICKLES if path in present]
    where = f"adapters.{adapter.name}: {adapter.listing.model_id} at {adapter.listing.commit[:8]}"
    if "adapter_config.json" not in present:
        raise Unresolvable(
            f"{where} is no LoRA adapter: it has no adapter_config.json",
            hint="name a repository that PEFT wrote; a model of its own goes under model_id",
        )
    if not has_weights and len(found) > 1 and not pickles:
        raise Unresolvable(
            f"{where} has its weights only as pickle, which can run code when it is loaded",
            hint="choose a revision with adapter_model.safetensors, or set `files: {allow_pickle: true}` if you trust "
            "its authors",
        )
    if len(found) < 2:
        raise Unresolvable(
            f"{where} has no adapter_model.safetensors",
            hint="name a repository or a folder with the adapter's weights",
        )
    return tuple(sorted(found, key=lambda entry: entry.path))


def _rank(adapter: AdapterFacts) -> int:
    rank = adapter.config.get("r")
    return rank if type(rank) is int else 0
