"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from lmi_deploy.domain.recipe import TargetName as TargetName

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    """`--json` on every command."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Print JSON Lines on stdout; the last line is the result."
    )(command)


def recipe_argument(command: F) -> F:
    """A recipe; optional if the folder contains exactly one."""
    return click.argument("recipe", required=False, type=click.Path(dir_okay=False), metavar="[RECIPE]")(
        command
    )


def recipe_options(command: F) -> F:
    """Options that change a recipe."""
    command = click.option(
        "--set",
        "sets",
        multiple=True,
        metavar="KEY=VALUE",
        help="Override one key, such as endpoint.port=9000; can be repeated.",
    )(command)
    return click.option("--overlay", metavar="NAME", help="Apply an overlay of the recipe.")(command)


def runtime_option(command: F) -> F:
    """Shorthand for `--set endpoint.runtime=NAME`, put last among the overrides."""
    return click.option(
        "--runtime",
        type=click.Choice(["auto", "embedded", "djl-serving", "container"]),
        help="Target local: the model server, overrides endpoint.runtime.",
    )(command)


def with_runtime(sets: tuple[str, ...], runtime: str | None) -> tuple[str, ...]:
    """The overrides of a command line that has `runtime_option`."""
    return sets if runtime is None else (*sets, f"endpoint.runtime={runtime}")


def name_argument(command: F) -> F:
    """A deployment by name or recipe; optional if there is exactly one."""
    return click.argument("name", required=False, metavar="[NAME]", shell_complete=_known_names)(command)


def max_hourly_option(command: F) -> F:
    """A limit on the cost of a deployment."""
    return click.option(
        "--max-hourly",
        type=float,
        callback=_amount,
        metavar="DOLLARS",
        help="Refuse (exit 5) if it may cost more per hour, or if a price is unknown.",
    )(command)


def force_fit_option(command: F) -> F:
    """Ignore the verdict of `lmi fit`."""
    return click.option(
        "--force-fit", is_flag=True, help="Continue although the model does not fit (`lmi fit`)."
    )(command)


def place_options(command: F) -> F:
    """The target of a named deployment."""
    command = click.option("--region", default="", help="Target sagemaker: the region.")(command)
    return click.option(
        "--target", type=click.Choice(["sagemaker", "local"]), help="The target, if the name exists in both."
    )(command)


def yes_option(command: F) -> F:
    """Agree in advance."""
    return click.option("-y", "--yes", is_flag=True, help="Agree in advance; required without a terminal.")(
        command
    )


def _amount(ctx: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """Not a number is no bound at all: nothing costs more than `nan`."""
    if value is not None and not value >= 0:
        raise click.BadParameter(f"{value:g} is not an amount of dollars, such as 5 or 1.25")
    return value


def _known_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from lmi_deploy.composition.local import known_names

    return [name for name in known_names() if name.startswith(incomplete)]
