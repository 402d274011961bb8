"""The model's own folder, and the patterns that choose its files."""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.errors.problem import Problem
from lmi_deploy.recipe.reader import ParsedFields
from lmi_deploy.recipe.yaml.tree import quoted


def is_folder(model_id: str) -> bool:
    """Whether it is a path of this machine, not a model of the Hub or in S3."""
    return model_id.startswith(("/", "./", "../", "~")) or model_id in (".", "..")


def check_model_folder(partial: ParsedFields) -> Iterator[Problem]:
    """A model_id that is a path must be a folder on this machine."""
    model_id = str(partial.value("model_id", ""))
    if is_folder(model_id) and (why := partial.purpose.folder_error(model_id)):
        hint = "write the path relative to the recipe's folder; a model of the Hub is ORG/NAME"
        yield _at(partial, "model_id", f"{model_id}: {why}", hint)


def check_patterns(partial: ParsedFields) -> Iterator[Problem]:
    """A pattern that no path of a repository can match: it would leave out everything, or nothing."""
    for key in ("files.allow", "files.ignore"):
        for pattern in partial.value(key, ()):
            if pattern.startswith(("/", "~")) or ".." in pattern.split("/") or "\\" in pattern:
                what = (
                    f"{quoted(pattern)} matches no file: paths start at the top of the model's own repository"
                )
                better = pattern.replace("\\", "/").lstrip("/~")
                parts = [part for part in better.split("/") if part not in ("", ".", "..")]
                yield _at(partial, key, what, f"write {quoted('/'.join(parts))}" if parts else "remove it")


def _at(partial: ParsedFields, path: str, what: str, hint: str) -> Problem:
    place = partial.place(path)
    return Problem(origin=place.origin, line=place.line, column=place.column, key=path, what=what, hint=hint)
