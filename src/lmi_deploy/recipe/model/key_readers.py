"""The keys of the recipe as its dataclasses in `domain/recipe_keys.py` declare them, with a reader for each value.

The source of the errors (`recipe/reader.py`), the JSON Schema (`recipe/json_schema.py`), the reference page and the
comments of `lmi init` (`planning/recipe_generation.py`).
"""

from __future__ import annotations

from dataclasses import MISSING, Field, fields, is_dataclass
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from lmi_deploy.catalog.options import TEMPLATE_OPTIONS
from lmi_deploy.domain.recipe_key_types import (
    Doc,
    GroupsByName,
    ListOf,
    Named,
    OneOrList,
    PairsOf,
    SourcesByName,
    ValueRule,
    ValuesByName,
    VariantsByName,
)
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.recipe.model.experiment_fields import ValuesField, VariantsField
from lmi_deploy.recipe.model.field_types import (
    FieldType,
    Key,
    KeyGroup,
    ListField,
    MappingField,
    ScalarField,
    ScalarOrListField,
    SourcesField,
)
from lmi_deploy.recipe.model.named_groups import GroupsField
from lmi_deploy.recipe.model.scalar_types import FLAG, choice, scalar_type
from lmi_deploy.recipe.model.user_mappings import PAIR_RULES

TEMPLATES = tuple(TEMPLATE_OPTIONS)
"""lmi's own handler templates."""


def declared_group(dataclass_type: type[Any], *, also: tuple[str, ...] = ()) -> KeyGroup:
    """The keys that the fields of this dataclass declare; a field that is not `Annotated` is no key."""
    declared = (field for field in fields(dataclass_type) if get_origin(field.type) is Annotated)
    return KeyGroup(dataclass_type, tuple(map(_key, declared)), also)


def _key(field: Field[Any]) -> Key:
    annotation, *metadata = get_args(field.type)
    doc = next(each for each in metadata if isinstance(each, Doc))
    rules = [each for each in metadata if not isinstance(each, Doc)]
    return Key(
        field.name,
        _shape_of_rule(rules[0]) if rules else _shape_of_type(annotation),
        doc.text,
        doc.example,
        required=field.default is MISSING and field.default_factory is MISSING,
        default=None if field.default in (MISSING, ()) else field.default,
    )


def _shape_of_rule(rule: ValueRule) -> FieldType:
    match rule:
        case ListOf(item, limit):
            return ListField(scalar_type(item), limit)
        case OneOrList(item, most):
            return ScalarOrListField(scalar_type(item), most)
        case PairsOf(kind):
            return MappingField(PAIR_RULES[kind])
        case SourcesByName(most):
            return SourcesField(scalar_type(Named("model id")), scalar_type(Named("revision")), most)
        case VariantsByName(most):
            return VariantsField(most)
        case GroupsByName(group, most):
            return GroupsField(declared_group(group), most)
        case ValuesByName(most):
            return ValuesField(most)
        case _:
            return ScalarField(scalar_type(rule))


def _shape_of_type(annotation: Any) -> FieldType | KeyGroup:
    """Of a group, a flag or a Literal, each with or without None."""
    kind: type[Any] = get_args(annotation)[0] if get_origin(annotation) in (Union, UnionType) else annotation
    if is_dataclass(kind):
        return declared_group(kind)
    return ScalarField(FLAG if kind is bool else choice(*get_args(kind)))


RECIPE = declared_group(Recipe, also=("overlays",))
