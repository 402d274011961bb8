"""How a key of the recipe is declared, in the `Annotated[...]` of its field in `domain/recipe_keys.py`: its meaning
and its values. Plain data: `recipe/model` reads values, and writes the schema and the pages, by it.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple


class Doc(NamedTuple):
    """What a key means, and an example of its value as YAML. A field without one is no key."""

    text: str
    example: str = ""


class Integer(NamedTuple):
    """A whole number in decimal digits."""

    low: int
    high: int


class Number(NamedTuple):
    """A decimal number, such as 0.5."""

    low: float
    high: float


class Seconds(NamedTuple):
    """A duration: `3600`, `90m`, `8h`, `2d`."""

    low: int
    high: int


class Limited(NamedTuple):
    """A whole number within the limits of `catalog/sagemaker_limits.py`; with the unit `seconds`, a duration."""

    limit: str
    unit: str


class EnumOf(NamedTuple):
    """A name that SageMaker lists, in this table of `catalog/sagemaker_limits.py`; with `or_auto` also `auto`."""

    table: str
    noun: str
    or_auto: bool = False


class MatchingRule(NamedTuple):
    """Text that SageMaker's own model has this rule for, in `catalog/sagemaker_limits.py`."""

    rule: str
    noun: str


class OneLine(NamedTuple):
    """Text on one line, not blank, that may look like a number."""

    label: str = "text"


class FilePath(NamedTuple):
    """A file beside the recipe."""

    suffix: str


class Named(NamedTuple):
    """A type with rules of its own, by name: see `recipe/model/scalar_types.py`."""

    name: Literal[
        "bucket",
        "degree",
        "deployment name",
        "folder",
        "handler module",
        "handler template",
        "model id",
        "revision",
        "role",
        "text",
    ]


ScalarRule = Integer | Number | Seconds | Limited | EnumOf | MatchingRule | OneLine | FilePath | Named


class ListOf(NamedTuple):
    """A list of values; `limit` names SageMaker's limits on how many there are."""

    item: ScalarRule
    limit: str = ""


class OneOrList(NamedTuple):
    """One value, or a list of them."""

    item: ScalarRule
    most: int


class PairsOf(NamedTuple):
    """The user's own keys and values, by the rules of this name: see `recipe/model/mapping_types.py`."""

    kind: Literal[
        "artifact file",
        "build argument",
        "compile argument",
        "dimension",
        "environment",
        "option",
        "property",
        "step",
        "tag",
        "text",
    ]


class SourcesByName(NamedTuple):
    """The user's own names, each with the source of a model: an id alone, or a group with `source` and `revision`."""

    most: int


class VariantsByName(NamedTuple):
    """The user's own names, each with a variant of an experiment: an overlay, a recipe, or a group."""

    most: int


class GroupsByName(NamedTuple):
    """The user's own names, each with a group of keys: those of this dataclass, whose `name` is not one of them."""

    group: type[Any]
    most: int


class ValuesByName(NamedTuple):
    """Names, each with one value or a list of values."""

    most: int


ValueRule = (
    ScalarRule | ListOf | OneOrList | PairsOf | SourcesByName | VariantsByName | ValuesByName | GroupsByName
)
