"""From the YAML tree to typed values: each field separately, each mistake reported once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from lmi_deploy.catalog import options
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.errors.recipe_problem import Problem
from lmi_deploy.recipe.checks.issue import Issue
from lmi_deploy.recipe.model.field_types import INVALID, FieldType, Key, KeyGroup
from lmi_deploy.recipe.model.key_readers import RECIPE
from lmi_deploy.recipe.name_suggestions import nearest
from lmi_deploy.recipe.yaml.tree import (
    InvalidNode,
    MappingEntry,
    MappingNode,
    Node,
    ScalarNode,
    SourcePosition,
    describe,
)

MOST_PROBLEMS = 100
"""More than anybody reads; the rest is counted."""

WORDS_OF_OTHERS: Final = {
    **dict.fromkeys(("env", "environment", "env_vars", "environment_variables"), "container.environment"),
    **dict.fromkeys(
        ("replicas", "num_replicas", "instance_count", "initial_instance_count"), "endpoint.count"
    ),
    **dict.fromkeys(("min_replicas", "min_instances", "min_capacity"), "endpoint.autoscaling.min"),
    **dict.fromkeys(("max_replicas", "max_instances", "max_capacity"), "endpoint.autoscaling.max"),
    **dict.fromkeys(("gpus", "num_gpus", "gpu_count", "accelerators", "tp"), "tensor_parallel_degree"),
    **dict.fromkeys(("model", "model_name", "hf_model_id", "repo_id"), "model_id"),
    **dict.fromkeys(("instance", "machine_type", "accelerator_type"), "instance_type"),
    **dict.fromkeys(("image_uri", "docker_image"), "container.image"),
    **dict.fromkeys(("role", "role_arn", "execution_role_arn"), "endpoint.role"),
    **dict.fromkeys(("hf_token", "hf_access_token", "hf_hub_token", "token"), "weights.token_secret"),
    "endpoint_name": "name",
    "scaling": "endpoint.autoscaling",
}
"""What SageMaker's SDK, Kubernetes and other deployment tools call a key of the recipe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Purpose:
    """The purpose for which a recipe is read."""

    deploying: bool = True
    """It will be deployed, so keys that are not implemented are refused; else only its weights are transferred."""
    file_error: Callable[[str], str] = lambda path: ""
    """Why one of the user's files, by its path in the recipe, cannot be read; empty if it can."""
    folder_error: Callable[[str], str] = lambda path: ""
    """Why a path in the recipe is no folder; empty if it is one."""
    target_issues: Callable[[Recipe], Iterable[Issue]] = lambda recipe: ()
    """What its target would refuse of a recipe that will be deployed."""


DEPLOYING = Purpose()


@dataclass(frozen=True, slots=True)
class ParsedValue:
    """A value that was read, and the position of its key."""

    value: Any
    place: SourcePosition
    value_place: SourcePosition


@dataclass(slots=True)
class ParsedFields:
    """The parsed values, by dotted path. A path in `is_invalid` was written with an invalid value."""

    root: SourcePosition
    purpose: Purpose = DEPLOYING
    found: dict[str, ParsedValue] = field(default_factory=dict)
    is_invalid: set[str] = field(default_factory=set)
    pairs: dict[str, MappingEntry] = field(default_factory=dict)
    """The user's own keys, such as `options.dtype`."""

    def value(self, path: str, default: Any = None) -> Any:
        known = self.found.get(path)
        return default if known is None else known.value

    def place(self, path: str) -> SourcePosition:
        """The position of `path`, else of the group that would contain it, else of the recipe's start."""
        while path:
            if path in self.found:
                return self.found[path].place
            if path in self.pairs:
                return self.pairs[path].place
            path = path.rpartition(".")[0]
        return self.root

    def value_place(self, path: str, offset: int = 0) -> SourcePosition:
        """The position of a key's value; in a block of one of the user's own keys that of its character `offset`."""
        if path in self.found:
            return self.found[path].value_place
        if path not in self.pairs:
            return self.place(path)
        node = self.pairs[path].value
        return node.place_at(offset) if offset and isinstance(node, ScalarNode) else node.place

    def is_valid(self, *paths: str) -> bool:
        """Whether none of these was complained about already."""
        return not any(path in self.is_invalid for path in paths)

    def problem(self, path: str, what: str, hint: str = "") -> Problem:
        """A mistake at the position of `path`."""
        return self.place(path).problem(path, what, hint)

    def build(self, group: KeyGroup = RECIPE, path: str = "") -> Any:
        """The dataclass of `group`; an absent key gets the dataclass's default.

        Cross-checks build a recipe with errors too: an invalid value counts as left out, a missing one is empty, and
        a group that lacks one is None. They call `is_valid` before they report.
        """
        filled: dict[str, Any] = {}
        for key in group.keys:
            local = f"{path}{key.name}"
            if local in self.found and local not in self.is_invalid:
                nested = isinstance(key.shape, KeyGroup)
                filled[key.name] = self.build(key.shape, f"{local}.") if nested else self.value(local)  # type: ignore[arg-type]
        missing = [key.name for key in group.keys if key.required and key.name not in filled]
        if missing and path:
            return None
        return group.dataclass_type(**dict.fromkeys(missing, ""), **filled)


class RecipeReader:
    """Walks one tree along the declaration. `is_complete`: required keys must be present."""

    def __init__(
        self,
        root: SourcePosition,
        *,
        prefix: str = "",
        is_complete: bool = True,
        purpose: Purpose = DEPLOYING,
    ) -> None:
        self.partial = ParsedFields(root, purpose)
        self.problems: list[Problem] = []
        self._prefix = prefix
        self._complete = is_complete

    def read(self, table: MappingNode) -> None:
        self._group(RECIPE, table, "")

    def _group(self, group: KeyGroup, table: MappingNode, path: str) -> None:
        for name, entry in table.entries.items():
            key = group.find(name)
            if key is None:
                self._unknown(group, name, entry, path)
            else:
                self._key(key, entry, f"{path}{name}")
        for key in group.keys if self._complete else ():
            local = f"{path}{key.name}"
            if key.required and key.name not in table.entries and local not in self.partial.is_invalid:
                place = self.partial.place(path.rstrip("."))
                self.partial.is_invalid.add(local)
                self.report(place, local, "is missing", f"such as {key.name}: {key.example}")

    def _key(self, key: Key, entry: MappingEntry, path: str) -> None:
        if isinstance(key.shape, KeyGroup):
            self._nested(key.shape, entry, path)
        elif not (_is_empty(entry.value) and key.shape.collects):
            self._leaf(key.shape, entry, path)

    def _leaf(self, shape: FieldType, entry: MappingEntry, path: str) -> None:
        def notify(place: SourcePosition, what: str, hint: str, suffix: str) -> None:
            self.report(place, f"{path}.{suffix}" if suffix else path, what, hint)

        value = shape.read(entry.value, notify)
        none_valid = value == () and isinstance(entry.value, MappingNode) and bool(entry.value.entries)
        if value is INVALID or none_valid:
            self.partial.is_invalid.add(path)
        else:
            self.partial.found[path] = ParsedValue(value, entry.place, entry.value.place)
            if isinstance(entry.value, MappingNode):
                pairs = entry.value.entries
                self.partial.pairs.update({f"{path}.{name}": pair for name, pair in pairs.items()})

    def _nested(self, group: KeyGroup, entry: MappingEntry, path: str) -> None:
        if isinstance(entry.value, MappingNode):
            self.partial.found[path] = ParsedValue(None, entry.place, entry.value.place)
            self._group(group, entry.value, f"{path}.")
        elif not _is_empty(entry.value):
            self.partial.is_invalid.add(path)
            if not isinstance(entry.value, InvalidNode):
                keys = ", ".join(key.name for key in group.keys)
                what = f"expected a mapping, not {describe(entry.value)}"
                self.report(entry.value.place, path, what, f"with {keys}")

    def _unknown(self, group: KeyGroup, name: str, entry: MappingEntry, path: str) -> None:
        suggestion = self._suggestion(group, name, path) if len(self.problems) < MOST_PROBLEMS else ""
        hint = f"did you mean {suggestion.removeprefix(path)}?" if suggestion else ""
        if not hint and len(group.keys) <= 8:
            hint = f"use one of {', '.join(key.name for key in group.keys)}"
        # The suggested key is not reported as missing as well: one mistake, one message.
        self.partial.is_invalid.add(suggestion)
        self.report(entry.place, f"{path}{name[:80]}", "unknown key", hint)

    def _suggestion(self, group: KeyGroup, name: str, path: str) -> str:
        """The path of the key that the user probably meant, here or in another group; empty if that is unclear."""
        word = name.lower()
        meant = WORDS_OF_OTHERS.get(word, "")
        if meant and meant.startswith(path):
            return meant
        if elsewhere := next((path for path in _paths(RECIPE, "") if path.rpartition(".")[2] == word), ""):
            return elsewhere
        local = nearest(name, [*(key.name for key in group.keys), *(group.also if self._complete else ())])
        if local:
            return f"{path}{local}"
        is_option = word in options.server_names() or any(
            word in options.names(engine, options.newest(engine)) for engine in options.engines()
        )
        return f"options.{word}" if is_option else ""

    def report(self, place: SourcePosition, path: str, what: str, hint: str) -> None:
        self.problems.append(place.problem(self._prefix + path, what, hint))


def _is_empty(node: Node) -> bool:
    """A key with nothing after it, for example if its whole content is commented out."""
    return isinstance(node, ScalarNode) and node.plain and not node.text


def _paths(group: KeyGroup, path: str) -> Iterator[str]:
    for key in group.keys:
        yield f"{path}{key.name}"
        if isinstance(key.shape, KeyGroup):
            yield from _paths(key.shape, f"{path}{key.name}.")
