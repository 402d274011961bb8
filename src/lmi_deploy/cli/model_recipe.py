"""`lmi up MODEL`: the recipe that `lmi init MODEL` writes, in a file beside the user's other recipes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from lmi_deploy.cli.context import CommandContext
from lmi_deploy.cli.output_files import writing
from lmi_deploy.domain.recipe_keys import RECIPE_SUFFIXES
from lmi_deploy.errors import Refused

EDITOR_SCHEMA: Final = "recipe.schema.json"
"""The first line of a new recipe names it."""
_OWNER_AND_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*/[A-Za-z0-9_][A-Za-z0-9._-]*")


def is_hub_model(argument: str) -> bool:
    """Whether it can only be a model on the Hub. `folder/file` stays a path, so that a typing error in the name of a
    recipe deploys nothing.
    """
    path = Path(argument)
    return (
        _OWNER_AND_NAME.fullmatch(argument) is not None
        and path.suffix not in (*RECIPE_SUFFIXES, ".json")
        and not path.parent.exists()
    )


def recipe_of_model(model_id: str, context: CommandContext) -> str:
    """Write the recipe, and return its path. A recipe for this model that is there already is used as it is.

    Refused if the file is the recipe of another model.
    """
    from lmi_deploy.domain.deployment_names import name_for
    from lmi_deploy.workflows.hardware_selection import InitRequest
    from lmi_deploy.workflows.init import generate_recipe

    path = Path(f"{name_for(model_id)}.yaml")
    if path.exists():
        _require_same_model(path, model_id)
        context.view.note(f"{path}: the recipe of {model_id} is used as it is")
        return str(path)
    draft = generate_recipe(InitRequest(model_id=model_id), context.deps, schema=EDITOR_SCHEMA)
    with writing(path):
        path.write_text(draft.text, encoding="utf-8")
    for note in draft.notes:
        context.view.note(note)
    context.view.note(f"wrote {path}, as `lmi init {model_id}` does: edit it, and run `lmi up {path}` again")
    return str(path)


def _require_same_model(path: Path, model_id: str) -> None:
    from lmi_deploy.api.recipe_loading import read_recipe

    found = read_recipe(str(path), overlay=None, sets=()).model_id
    if found != model_id:
        raise Refused(
            f"{path}: the file exists, and its model is {found}, not {model_id}",
            hint=f"name the file (`lmi up {path}`), or write another one (`lmi init {model_id} -o FILE`)",
        )
