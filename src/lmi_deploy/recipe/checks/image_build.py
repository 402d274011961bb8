"""Cross-checks of `container.build`: an image that lmi builds from a folder."""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.domain.image_build import DOCKERFILE
from lmi_deploy.domain.safe_paths import check_relative_path
from lmi_deploy.errors.recipe_problem import Problem
from lmi_deploy.recipe.reader import ParsedFields

BUILD = "container.build"
_PARTS = ("container.dockerfile", "container.build_args")


def image_build(partial: ParsedFields) -> Iterator[Problem]:
    if BUILD not in partial.found:
        if partial.is_valid(BUILD):
            yield from (
                partial.problem(path, f"has no effect without {BUILD}", f"name the folder in {BUILD}")
                for path in _PARTS
                if partial.value(path)
            )
        return
    for path, instead in (("container.image", "image"), ("container.version", "version")):
        if path in partial.found:
            yield partial.problem(BUILD, f"cannot be combined with {path}", f"keep build or {instead}")
    yield from _files(partial)


def _files(partial: ParsedFields) -> Iterator[Problem]:
    folder, dockerfile = partial.value(BUILD), partial.value("container.dockerfile")
    if folder is None:
        return
    path = "container.dockerfile" if dockerfile else BUILD
    if dockerfile and (why := check_relative_path(dockerfile)):
        yield partial.problem(path, f"{dockerfile}: {why}", f"write a path inside {folder}")
    elif partial.purpose.deploying:
        name = f"{folder}/{dockerfile or DOCKERFILE}"
        if why := partial.purpose.folder_error(folder):
            yield partial.problem(BUILD, f"{folder}: {why}", "write the path relative to the recipe's folder")
        elif why := partial.purpose.file_error(name):
            yield partial.problem(path, f"{name}: {why}", "the folder needs a Dockerfile")
