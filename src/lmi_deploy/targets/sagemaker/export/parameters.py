"""The parameters of a stack: what differs between accounts, and what must not be written down."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lmi_deploy.domain.deployment_spec import Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    words: tuple[str, ...]
    """Its name, from which each format makes its own form."""
    description: str
    default: str | None
    """None: the user who applies the stack must give it."""
    secret: bool = False
    """Neither format shows its value."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text with parameters in it."""

    parts: tuple[str | Parameter, ...]


def shared_parameters(spec: Spec) -> tuple[Parameter, Parameter, Parameter]:
    """Endpoint name, role, bucket."""
    place = spec.cloud
    fixed = (
        ""
        if place.delivery == "artifact"
        else " The artifact refers to it, too: for another bucket, export again with --set endpoint.bucket=NAME."
    )
    return (
        Parameter(words=("endpoint", "name"), description="The name of the endpoint.", default=spec.name),
        Parameter(
            words=("execution", "role", "arn"),
            description="The role of the endpoint; lmi iam --part execution prints its policy.",
            default=place.role,
        ),
        Parameter(
            words=("bucket",),
            description=f"The bucket of artifact and weights.{fixed}",
            default=place.bucket,
        ),
    )


def environment_parameters(given: Mapping[str, str], *, with_values: bool) -> dict[str, Parameter]:
    """One for each variable of the recipe's `container.environment`: like a plan, an export contains no values."""
    found: dict[str, Parameter] = {}
    used: set[tuple[str, ...]] = set()
    for name, value in sorted(given.items()):
        words = ("environment", *re.findall(r"[a-z0-9]+", name.lower()))
        number = 2
        while words in used:
            words = (*words[: len(words) - (number > 2)], str(number))
            number += 1
        used.add(words)
        found[name] = Parameter(
            words=words,
            description=f"The value of the container's variable {name}.",
            default=value if with_values else None,
            secret=not with_values,
        )
    return found
