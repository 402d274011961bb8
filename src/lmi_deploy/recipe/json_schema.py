"""The recipe's JSON Schema (2020-12) for editors, from the same declaration that reads recipes.

An editor has YAML's own interpretation of a value (`1.10` is a number to it), so the schema is a little wider than
`parse`, never narrower. pydantic builds it; `parse` itself does not use it, because importing it takes longer than
reading the recipe.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, create_model

from lmi_deploy.domain.deployment_names import NAME
from lmi_deploy.recipe.model.field_types import Key, KeyGroup
from lmi_deploy.recipe.model.key_readers import RECIPE

DIALECT = "https://json-schema.org/draft/2020-12/schema"
TITLE = "Recipe of lmi"


def json_schema() -> dict[str, Any]:
    """The whole schema, ready for `json.dumps`; a copy is docs/reference/recipe.schema.json (`make reference`)."""
    kind: Any = dict[str, _model(RECIPE, part=True)]  # type: ignore[misc]
    doc = "Keys that `--overlay NAME` merges into the recipe."
    overlays: tuple[Any, Any] = (kind, Field(default={}, description=doc, json_schema_extra=_closed))
    recipe = _model(RECIPE, part=False, overlays=overlays)
    return {"$schema": DIALECT, **recipe.model_json_schema(), "title": TITLE}


def _model(group: KeyGroup, *, part: bool, **more: Any) -> type[BaseModel]:
    """`part`: an overlay's view, in which nothing is required."""
    part = part and _requires(group)
    fields: dict[str, Any] = {key.name: _field(key, part=part) for key in group.keys}
    config = ConfigDict(extra="forbid", json_schema_extra={"patternProperties": {"^x-": {}}})
    name = (
        ("Overlay" if group is RECIPE else f"{group.dataclass_type.__name__}Part")
        if part
        else group.dataclass_type.__name__
    )
    return create_model(name, __config__=config, **fields, **more)


def _requires(group: KeyGroup) -> bool:
    return any(
        key.required or (isinstance(key.shape, KeyGroup) and _requires(key.shape)) for key in group.keys
    )


def _field(key: Key, *, part: bool) -> tuple[Any, Any]:
    field_type = key.shape
    kind = (
        _model(field_type, part=part)
        if isinstance(field_type, KeyGroup)
        else Annotated[Any, WithJsonSchema(field_type.schema())]
    )
    extra = {} if key.default is None else {"default": key.default}
    required = key.required and not part

    def finish(schema: dict[str, Any]) -> None:
        _no_default(schema)
        schema.update(extra)

    start = ... if required else None
    return kind, Field(start, title=key.name, description=key.doc, json_schema_extra=finish)


def _closed(schema: dict[str, Any]) -> None:
    _no_default(schema)
    overlay = schema["additionalProperties"]
    schema["patternProperties"] = {"^x-": {}, f"^(?!x-){NAME.pattern}$": overlay}
    schema["additionalProperties"] = False


def _no_default(schema: dict[str, Any]) -> None:
    """pydantic states `default: null` for every optional key, which does not help the user of an editor."""
    schema.pop("default", None)
