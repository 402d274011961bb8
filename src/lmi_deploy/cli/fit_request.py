"""What `lmi fit` and `lmi instances --fits` are about: a recipe, a model of the Hub, or a folder."""

from __future__ import annotations

from pathlib import Path

from lmi_deploy.cli.context import CommandContext
from lmi_deploy.cli.recipe_loading import read_recipe
from lmi_deploy.errors import UsageRefused
from lmi_deploy.workflows.fit import FitRequest, recipe_request


def read_fit_request(
    what: str, context: CommandContext, *, overlay: str | None = None, sets: tuple[str, ...] = ()
) -> FitRequest:
    """`overlay` and `sets` change a recipe; UsageRefused if `what` is none."""
    path = Path(what)
    if what.endswith((".yaml", ".yml")) or what == "-" or path.is_file():
        return recipe_request(read_recipe(what, overlay=overlay, sets=sets), context.deps)
    if overlay or sets:
        raise UsageRefused(f"{what} is not a recipe: --set and --overlay need one", hint="use --option K=V")
    if path.is_dir() and not what.startswith(("/", "./", "../", "~", "s3://")):
        what = f"./{what}"
    return FitRequest(model_id=what)
