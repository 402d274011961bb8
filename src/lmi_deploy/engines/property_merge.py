"""The lines of serving.properties that every engine writes the same way."""

from __future__ import annotations

from collections.abc import Iterable

from lmi_deploy.domain.recipe_keys import Pairs


def with_options(own: Iterable[tuple[str, str]], options: Pairs) -> Pairs:
    """`options` without their prefix: each replaces ours of the same name in place, the others follow
    in their order.
    """
    given = {f"option.{key}": value for key, value in options}
    kept = [(key, given.pop(key, value)) for key, value in own]
    return (*kept, *given.items())
