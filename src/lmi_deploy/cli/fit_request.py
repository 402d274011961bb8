"""What `lmi fit` and `lmi instances --fits` are about: a recipe, a model of the Hub, or a folder."""

from __future__ import annotations

from pathlib import Path

from lmi_deploy.api.recipe_loading import as_model_id, read_recipe
from lmi_deploy.cli.context import CommandContext
from lmi_deploy.domain.recipe_keys import RECIPE_SUFFIXES
from lmi_deploy.errors import UsageRefused
from lmi_deploy.workflows.fit import FitRequest, recipe_request


def read_fit_request(
    what: str, context: CommandContext, *, overlay: str | None = None, sets: tuple[str, ...] = ()
) -> FitRequest:
    """`overlay` and `sets` change a recipe; UsageRefused if `what` is none."""
    if what.endswith(RECIPE_SUFFIXES) or what == "-" or Path(what).is_file():
        return recipe_request(read_recipe(what, overlay=overlay, sets=sets), context.deps)
    if overlay or sets:
        raise UsageRefused(f"{what} is not a recipe: --set and --overlay need one", hint="use --option K=V")
    return FitRequest(model_id=as_model_id(what))
