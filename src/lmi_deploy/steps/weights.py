"""A recipe's weights into a bucket ahead of time: a CI step of its own."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from lmi_deploy.core.events import Event, Finished, Notice, Started
from lmi_deploy.core.facts import ModelListing
from lmi_deploy.core.recipe import Recipe
from lmi_deploy.core.spec import WeightsSpec
from lmi_deploy.core.weights import BucketWish, Manifest, weights_name
from lmi_deploy.decide.carriers import OWN, choose_carrier
from lmi_deploy.decide.select import require_shards, select
from lmi_deploy.errors import Unresolvable
from lmi_deploy.ports.source import Source
from lmi_deploy.ports.weights import Weights as Weights
from lmi_deploy.steps.deps import Deps
from lmi_deploy.steps.gather import model_listing, read_json, shards, tensors

KEY = "push"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cargo:
    """The chosen files of one commit, and what they will be called in a bucket."""

    listing: ModelListing
    weights: WeightsSpec

    @property
    def name(self) -> str:
        return weights_name(self.listing.model_id, self.listing.commit, self.weights.files)


def bucket_of(recipe: Recipe, wish: BucketWish) -> BucketWish:
    """What the command line says, else the recipe."""
    return BucketWish(
        bucket=wish.bucket or recipe.endpoint.bucket or "",
        region=wish.region or recipe.endpoint.region or "",
        profile=wish.profile,
        create=wish.create,
    )


def _is_here(recipe: Recipe, cargo: Cargo) -> bool:
    """Whether the files are, or are to be, on this machine before they travel."""
    return recipe.weights.via == "snapshot" or cargo.listing.source == "folder"


def _moved(
    recipe: Recipe, cargo: Cargo, weights: Weights, source: Source, folder: Path | None
) -> Generator[Event, None, Manifest]:
    """By the engine of `weights.engine`; for `auto` the one that was measured to be the fastest for such files."""
    files = cargo.weights.files
    chosen = choose_carrier(recipe.weights.engine, files, here=folder is not None, present=weights.engines)
    if chosen.engine == OWN or folder is None:
        yield Notice(text=f"engine: {OWN}")
        return (yield from weights.push(cargo.listing, files, source, key=KEY))
    if chosen.why:
        yield Notice(text=chosen.why)
    return (yield from weights.carry(cargo.listing, files, folder, engine=chosen.engine, key=KEY))


def choose_cargo(recipe: Recipe, deps: Deps) -> Cargo:
    """The same choice that a deployment of the recipe makes: reads only, every check of it."""
    if recipe.weights.via == "job":
        raise Unresolvable(
            "weights.via: a job runs with the role and in the account of a deployment, as a part of `lmi up`",
            hint="use `lmi up`; or push from here with --set weights.via=stream",
        )
    hub = deps.hub(recipe.model_id)
    listing = model_listing(recipe, hub)
    weights = select(listing, recipe.files, remote_code=recipe.trust_remote_code)
    require_shards(weights, shards(read_json(hub, listing, "model.safetensors.index.json")), recipe.files)
    tensors(hub, listing)
    return Cargo(listing=listing, weights=weights)


def push(recipe: Recipe, cargo: Cargo, weights: Weights, deps: Deps) -> Generator[Event, None, Manifest]:
    """`weights.via`: streamed from the source, or through the Hub's cache on this machine first."""
    begun = deps.clock.monotonic()
    title = f"push {cargo.listing.model_id} at {cargo.listing.commit[:8]} to {weights.where}"
    yield Started(key=KEY, title=title)
    hub = deps.hub(recipe.model_id)
    source: Source = hub
    folder: Path | None = None
    if _is_here(recipe, cargo):
        folder = yield from hub.fetch(cargo.listing, cargo.weights.files, key=KEY)
        source = deps.files(folder)
        yield Notice(text=f"the files are in {folder}")
    manifest = yield from _moved(recipe, cargo, weights, source, folder)
    seconds = round(deps.clock.monotonic() - begun, 3)
    yield Finished(key=KEY, title=title, seconds=seconds, outcome=f"{len(manifest.files)} files")
    return manifest
