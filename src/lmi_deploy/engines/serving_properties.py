"""Write serving.properties: the lines of every engine in DJLServing, merged with the options of the recipe."""

from __future__ import annotations

from collections.abc import Iterable

from lmi_deploy.domain.deployment_artifact import SLOT
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.java_properties import write_line
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.engines.jinja_templates import rendered


def with_options(own: Iterable[tuple[str, str]], options: Pairs) -> Pairs:
    """`options` without their prefix: each replaces ours of the same name in place, the others follow
    in their order.
    """
    given = {f"option.{key}": value for key, value in options}
    kept = [(key, given.pop(key, value)) for key, value in own]
    return (*kept, *given.items())


def serving_properties(spec: Spec) -> bytes:
    # The slot is written unescaped: the target replaces it by an escaped location.
    lines = [
        f"{key}={value}" if value == SLOT else write_line(key, _without_slot(value))
        for key, value in spec.engine.properties
    ]
    return rendered("serving.properties.jinja", spec=spec, lines=lines).encode("latin-1")


def _without_slot(value: str) -> str:
    """The value, which must not contain the slot's own mark: only lmi may set the location of the weights."""
    if SLOT in value:
        raise ValueError(f"a value contains {SLOT}")
    return value
