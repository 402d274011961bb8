"""The result of a rule: which key, what is wrong, what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lmi_deploy.domain.recipe_keys import Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """`path` is the key to change; `depends_on` are other keys: the issue is dropped if one of them is invalid
    itself.
    """

    path: str
    what: str
    hint: str = ""
    depends_on: tuple[str, ...] = ()

    @property
    def about(self) -> tuple[str, ...]:
        return (self.path, *self.depends_on)


Rule = Callable[[Recipe], Iterator[Issue]]
