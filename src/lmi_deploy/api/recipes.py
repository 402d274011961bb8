"""`lmi.Recipe`: a recipe, and what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Self

from lmi_deploy.api.experiment_recipes import require_valid_experiment
from lmi_deploy.api.recipe_loading import located, parse_text, read, single_recipe
from lmi_deploy.api.session import dependencies, explained
from lmi_deploy.domain import recipe_keys
from lmi_deploy.domain.recipe_weights_keys import is_folder
from lmi_deploy.errors import NotFound, RecipeError, Unresolvable
from lmi_deploy.errors.recipe_problem import Problem
from lmi_deploy.recipe.checks.notices import candidate_notices, notices

if TYPE_CHECKING:  # `lmi validate` has no use for the ports
    from lmi_deploy.workflows.dependencies import Dependencies

Overrides = Mapping[str, Any] | Sequence[str]
"""Keys of a recipe and their values, or texts as after `--set`."""
_Mistake = tuple[str, str, str]
"""Key, what is wrong, what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """What `lmi validate` says of one recipe: its mistakes in the order of the file, and notices that stop nothing."""

    problems: tuple[Problem, ...] = ()
    notices: tuple[str, ...] = ()
    fit: str = ""
    """Whether the model fits, in words; empty unless the model was read."""

    @property
    def is_valid(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        lines = [str(problem) for problem in self.problems] or ["valid"]
        return "\n".join([*lines, *(f"notice: {text}" for text in self.notices)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The text of a recipe, and what replaces its keys. It may have mistakes until `validate()` finds none."""

    origin: str
    text: bytes = field(repr=False)
    overlay: str | None = None
    overrides: tuple[str, ...] = ()

    @classmethod
    def load(
        cls,
        path: str | PathLike[str] | None = None,
        *,
        set: Overrides = (),
        overlay: str | None = None,
    ) -> Self:
        """Read a file; without `path` the only recipe in the folder. UsageRefused if it cannot be read.

        >>> recipe = Recipe.load("chat.yaml", set={"endpoint.target": "local"})
        >>> recipe.name
        'chat'
        """
        with explained():
            origin = fspath(path) if path is not None else single_recipe()
            return cls(origin=origin, text=read(origin), overlay=overlay, overrides=_texts(set))

    @classmethod
    def from_text(cls, text: str, *, set: Overrides = (), overlay: str | None = None) -> Self:
        """A recipe that is no file; its paths count from the current folder.

        >>> Recipe.from_text("{name: chat, model_id: org/model, engine: vllm, endpoint: {target: local}}").name
        'chat'
        """
        return cls(origin="RECIPE", text=text.encode(), overlay=overlay, overrides=_texts(set))

    @property
    def name(self) -> str:
        """The name of its deployment. RecipeError if the recipe has mistakes."""
        return self.parse().name

    @property
    def model_id(self) -> str:
        return self.parse().model_id

    @property
    def target(self) -> str:
        """`sagemaker` or `local`."""
        return self.parse().endpoint.target

    def validate(self, *, hub: bool = False) -> Validation:
        """All its mistakes at once, each with its line; nothing is printed or raised for them.

        Without the network, unless `hub`: then also whether the model fits, and what its engine refuses of it.

        >>> Recipe.from_text("{name: chat, model_id: org/model, engine: vlm}").validate().is_valid
        False
        """
        with explained():
            return check(self, hub=hub, deps=dependencies)

    def parse(self, *, deploying: bool = True) -> recipe_keys.Recipe:
        """Its keys as values. RecipeError with all its mistakes."""
        with explained():
            return parse_text(
                self.text, self.origin, overlay=self.overlay, sets=self.overrides, deploying=deploying
            )


def check(recipe: Recipe, *, hub: bool, deps: Callable[[], Dependencies]) -> Validation:
    """The same, with ports that are opened only for the model. UsageRefused for a `bench` that is no experiment."""
    try:
        parsed = recipe.parse()
        require_valid_experiment(parsed, recipe.overlay, recipe.overrides)
        mistakes, of_code = _own_code(parsed)
        of_model: Sequence[str] = ()
        fit = ""
        if hub or is_folder(parsed.model_id):
            of_fit, of_model, fit = _judged(parsed, deps())
            mistakes += of_fit
        if mistakes:
            overlay, sets = recipe.overlay, recipe.overrides
            raise RecipeError(located(mistakes, recipe.text, recipe.origin, overlay=overlay, sets=sets))
    except RecipeError as error:
        return Validation(problems=error.problems)
    found_here = (*notices(parsed), *candidate_notices(parsed))
    return Validation(notices=(*of_code, *of_model, *found_here), fit=fit)


def _own_code(parsed: recipe_keys.Recipe) -> tuple[list[_Mistake], list[str]]:
    """What the server would refuse of handler.file, and what may fail in it."""
    if parsed.handler.file is None:
        return [], []
    # Imported here, not above: most recipes have no code.
    from lmi_deploy.workflows.handler_validation import recipe_findings

    try:
        findings = recipe_findings(parsed)
    except Unresolvable as refused:
        return [("handler.file", refused.message.removeprefix("handler.file: "), refused.hint)], []
    found = [(each, f"{parsed.handler.file}:{each.line}: {each.what}") for each in findings]
    mistakes = [("handler.file", what, each.hint) for each, what in found if each.fatal]
    return mistakes, [f"{what}; {each.hint}" for each, what in found if not each.fatal]


def _judged(parsed: recipe_keys.Recipe, deps: Dependencies) -> tuple[list[_Mistake], tuple[str, ...], str]:
    """What the engine refuses of this model, notes, and the verdict of `lmi fit`."""
    # Imported here, not above: most recipes are checked without their model.
    from lmi_deploy.planning.model_compatibility import path_of
    from lmi_deploy.workflows.model_validation import judge_model

    try:
        found = judge_model(parsed, deps)
    except NotFound as missing:
        return [("model_id", missing.message, missing.hint)], (), ""
    return [(path_of(one), one.what, one.hint) for one in found.mistakes], found.notes, found.fit


def _texts(given: Overrides) -> tuple[str, ...]:
    """As after `--set`, whose values are YAML, of which JSON is a part."""
    if isinstance(given, Mapping):
        return tuple(
            f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in given.items()
        )
    return (given,) if isinstance(given, str) else tuple(given)
