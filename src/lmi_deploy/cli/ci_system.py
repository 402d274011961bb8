"""The CI system in which a command runs, by the variables that it sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

CiName = Literal["github", "gitlab", "codebuild", ""]
_ROOTS: Final[Mapping[CiName, str]] = {
    "github": "GITHUB_WORKSPACE",
    "gitlab": "CI_PROJECT_DIR",
    "codebuild": "CODEBUILD_SRC_DIR",
}
"""The variables with the folder of the repository."""
_MARKS: Final[Mapping[CiName, str]] = {
    "github": "GITHUB_ACTIONS",
    "gitlab": "GITLAB_CI",
    "codebuild": "CODEBUILD_BUILD_ID",
}
_COMMITS: Final = ("GITHUB_SHA", "CI_COMMIT_SHA", "CODEBUILD_RESOLVED_SOURCE_VERSION")


@dataclass(frozen=True, slots=True)
class CiSystem:
    """`name` is empty for any other system, and for a desk."""

    name: CiName
    root: Path
    """The folder of the repository: paths in annotations are relative to it."""
    commit: str = ""

    @classmethod
    def of(cls, environ: Mapping[str, str], folder: Path) -> CiSystem:
        """`folder`: the working directory; without a variable of the system, the repository is that of git."""
        name: CiName = next((name for name, mark in _MARKS.items() if environ.get(mark)), "")
        given = environ.get(_ROOTS[name], "") if name else ""
        above = (each for each in (folder, *folder.parents) if (each / ".git").exists())
        root = Path(given) if given else next(above, folder)
        commit = next((environ[each] for each in _COMMITS if environ.get(each)), "")
        return cls(name, root, commit)
