"""Problems of a deployment on SageMaker, each at its line."""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.domain.recipe import Recipe
from lmi_deploy.errors.problem import Problem
from lmi_deploy.recipe.builder import build_partial
from lmi_deploy.recipe.model.declaration import RECIPE
from lmi_deploy.recipe.reader import ParsedFields


def check_sagemaker(partial: ParsedFields) -> Iterator[Problem]:
    """Nothing if only the weights are transferred, and nothing that depends on an invalid key."""
    if not (partial.purpose.deploying and _is_valid(partial, "endpoint.target")):
        return
    if partial.value("endpoint.target") == "local":
        return
    # Imported here, not above: the rules load every engine, image and instance, a quarter of the time to check a
    # recipe for this machine, which does not need them.
    from lmi_deploy.targets.sagemaker.validate import validate

    for issue in validate(build_partial(RECIPE, partial)):
        if all(_is_valid(partial, path) for path in issue.about):
            written = (path for path in issue.about if path in partial.found or path in partial.pairs)
            place = partial.place(next(written, issue.path))
            yield Problem(
                origin=place.origin,
                line=place.line,
                column=place.column,
                key=issue.path,
                what=issue.what,
                hint=issue.hint,
            )


def is_refused(recipe: Recipe) -> bool:
    """Whether SageMaker would refuse a complete recipe."""
    from lmi_deploy.targets.sagemaker.validate import validate

    return any(validate(recipe))


def _is_valid(partial: ParsedFields, path: str) -> bool:
    """Whether neither the key nor a group around it was complained about."""
    parts = path.split(".")
    return partial.is_valid(*(".".join(parts[: end + 1]) for end in range(len(parts))))
