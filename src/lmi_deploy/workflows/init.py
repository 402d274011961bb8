"""Look a model up, and write a recipe for it."""

from __future__ import annotations

from dataclasses import dataclass

from lmi_deploy.errors import UsageRefused
from lmi_deploy.planning.recipe_template import choose, name_for
from lmi_deploy.planning.recognition import require_model
from lmi_deploy.recipe.model.scalar_types import InvalidValue
from lmi_deploy.recipe.model.scalar_types import model_id as id_of_a_model
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.gather import read_json


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeDraft:
    """A valid recipe; `name` is the name of its deployment."""

    name: str
    text: str
    commit: str


def generate_recipe(model_id: str, revision: str, deps: Dependencies, *, schema: str) -> RecipeDraft:
    """Reads only the repository's listing and its config.json. Unresolvable if it contains no model."""
    try:
        model_id = id_of_a_model().read(model_id)
    except InvalidValue as wrong:
        hint = "owner/name on the Hub, s3://bucket/prefix, or a folder with ./ or / before it"
        raise UsageRefused(f"MODEL: {wrong.what}", hint=hint) from None
    hub = deps.hub(model_id)
    listing = hub.listing(model_id, revision)
    require_model(listing)
    text = choose(listing, read_json(hub, listing, "config.json"), revision=revision, schema=schema)
    return RecipeDraft(name=name_for(model_id), text=text, commit=listing.commit)
