"""Push a recipe's weights into a bucket in advance: a separate step for CI."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace

from lmi_deploy.domain.action import Phase
from lmi_deploy.domain.deployment_spec import WeightsSpec
from lmi_deploy.domain.events import Event, Finished, Started
from lmi_deploy.domain.gathered_facts import Facts, ModelListing
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.weights import BucketRequest, Manifest, weights_name
from lmi_deploy.errors import Unresolvable
from lmi_deploy.planning.additional_models import additional_models, with_adapter_options
from lmi_deploy.planning.file_selection import INDEX, files_of, require_shards
from lmi_deploy.planning.transfer_options import transfer_options
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.weights import WeightsStore as WeightsStore
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.gather_facts import adapters, draft, model_location, read_json, shards, tensors

KEY, COPY = "push", "copy"


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsSelection:
    """The selected files of one commit, and their name in a bucket."""

    listing: ModelListing
    weights: WeightsSpec

    @property
    def repositories(self) -> tuple[ModelListing, ...]:
        """What is pushed: the model, its adapters and its draft model, each with its chosen files."""
        main = replace(self.listing, files=self.weights.files)
        return (main, *(each.listing for each in self.weights.additional))

    @property
    def name(self) -> str:
        return weights_name(self.listing.model_id, self.listing.commit, self.weights.files)


def bucket_of(recipe: Recipe, bucket_request: BucketRequest) -> BucketRequest:
    """The bucket on the command line, else the recipe's."""
    return BucketRequest(
        bucket=bucket_request.bucket or recipe.endpoint.bucket or "",
        region=bucket_request.region or recipe.endpoint.region or "",
        profile=bucket_request.profile,
        create=bucket_request.create,
    )


def choose_weights(recipe: Recipe, deps: Dependencies) -> WeightsSelection:
    """The same choice as in a deployment of the recipe: reads only, with all its checks."""
    if recipe.weights.via == "job":
        raise Unresolvable(
            "weights.via: a transfer job needs the role and account of a deployment, so only `lmi up` starts one",
            hint="use `lmi up`, or push from this machine with --set weights.via=stream",
        )
    if recipe.weights.in_place:
        raise Unresolvable(
            f"weights.in_place: the endpoint reads {recipe.model_id} where it is, so there is nothing to push",
            hint="run `lmi up`, or add --set weights.in_place=false to copy the model",
        )
    hub = deps.hub(recipe.model_id)
    listing = hub.listing(model_location(recipe), recipe.revision)
    weights = files_of(recipe, listing)
    require_shards(weights, shards(read_json(hub, listing, INDEX)), recipe.files)
    facts = Facts(
        listing=listing,
        config={},
        tensors=tensors(hub, listing),
        adapters=adapters(recipe, deps),
        draft=draft(recipe, deps),
    )
    weights = replace(weights, additional=additional_models(with_adapter_options(recipe, facts), facts))
    return WeightsSelection(listing=listing, weights=weights)


def copy(
    manifest: Manifest, origin: WeightsStore, target: WeightsStore, clock: Clock
) -> Generator[Event, None, Manifest]:
    """Server-side, into another bucket."""
    started = clock.monotonic()
    title = f"copy {manifest.name} to {target.where}"
    yield Started(key=COPY, title=title, phase=Phase.STORE)
    copied = yield from target.copy_from(origin, manifest.name, key=COPY)
    seconds = round(clock.monotonic() - started, 3)
    yield Finished(
        key=COPY, title=title, phase=Phase.STORE, seconds=seconds, outcome=f"{len(copied.files)} files"
    )
    return copied


def push(
    recipe: Recipe, selection: WeightsSelection, weights: WeightsStore, deps: Dependencies
) -> Generator[Event, None, tuple[Manifest, ...]]:
    """`weights.via`: streamed from the source, or through the Hub's cache on this machine first. The manifests: of the
    model, then of its adapters and its draft model.
    """
    pushed = []
    for listing in selection.repositories:
        pushed.append((yield from _push(listing, recipe, weights, deps)))
    return tuple(pushed)


def _push(
    listing: ModelListing, recipe: Recipe, weights: WeightsStore, deps: Dependencies
) -> Generator[Event, None, Manifest]:
    started = deps.clock.monotonic()
    title = f"push {listing.model_id} at {listing.commit[:8]} to {weights.where}"
    yield Started(key=KEY, title=title, phase=Phase.STORE)
    manifest = yield from weights.upload(
        listing,
        listing.files,
        deps.hub(listing.model_id),
        transfer_options=transfer_options(recipe.weights),
        local=deps.files,
        key=KEY,
    )
    seconds = round(deps.clock.monotonic() - started, 3)
    note = "" if manifest.name in weights.completed else ", all already in the bucket"
    yield Finished(
        key=KEY, title=title, phase=Phase.STORE, seconds=seconds, outcome=f"{len(manifest.files)} files{note}"
    )
    return manifest
