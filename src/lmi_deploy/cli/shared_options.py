"""Arguments and options that several commands share."""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from lmi_deploy.domain.recipe_endpoint_keys import TargetName
from lmi_deploy.errors import UsageRefused
from lmi_deploy.ui.verbosity import VERBOSITY

F = TypeVar("F", bound=Callable[..., Any])
AWS_REQUESTS = "LMI_AWS_REQUESTS"
"""Of the environment: names a file that gets a line for every request to AWS; - is stderr."""


def _choose_verbosity(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001 (click's)
    """The last of these options counts."""
    if value and parameter.name in ("quiet", "verbose", "debug"):
        VERBOSITY.set(parameter.name)  # type: ignore[arg-type]
    if value and parameter.name == "debug":
        os.environ.setdefault(AWS_REQUESTS, "-")


def json_option(command: F) -> F:
    """The options of every command's output: `--json`, and how much is printed beside the result."""
    for names, text in (
        (("--debug",), "As --verbose, with every request to AWS and the traceback of an error."),
        (("-q", "--quiet"), "Print only the plan, the result and errors."),
        (("-v", "--verbose"), "Print every step and every line of other programs."),
    ):
        command = click.option(
            *names, is_flag=True, expose_value=False, callback=_choose_verbosity, help=text
        )(command)
    return click.option(
        "--json", "as_json", is_flag=True, help="Print JSON Lines on stdout; the last line is the result."
    )(command)


region_option = click.option(
    "--region",
    envvar=["AWS_REGION", "AWS_DEFAULT_REGION"],
    default="us-east-1",
    help="The AWS region.  [default: AWS_REGION, else us-east-1]",
)
recipe_argument = click.argument(
    "recipe", required=False, type=click.Path(dir_okay=False), metavar="[RECIPE]"
)
"""Optional if the folder contains exactly one."""
recipes_argument = click.argument("recipes", nargs=-1, type=click.Path(dir_okay=False), metavar="[RECIPE]...")
runtime_option = click.option(
    "--runtime",
    type=click.Choice(["auto", "embedded", "djl-serving", "container"]),
    help="Target local: the model server, overrides endpoint.runtime.",
)
force_fit_option = click.option(
    "--force-fit", is_flag=True, help="Continue even if the model does not fit (see `lmi fit`)."
)
no_rollback_option = click.option(
    "--no-rollback",
    is_flag=True,
    help="Leave a new version that fails its probe, with the requests going to it.",
)
yes_option = click.option(
    "-y", "--yes", is_flag=True, help="Do not ask for confirmation; required without a terminal."
)


def _set_lock_timeout(context: click.Context, parameter: click.Parameter, value: str) -> None:
    # Imported here, not above: `lmi validate` needs no durations.
    from lmi_deploy.cli.context import LOCK_TIMEOUT
    from lmi_deploy.domain.recipe_key_types import Seconds
    from lmi_deploy.workflows.extend import read_duration

    context.meta[LOCK_TIMEOUT] = read_duration(value, Seconds(0, 86_400))


lock_timeout_option = click.option(
    "--lock-timeout",
    metavar="DURATION",
    default="0",
    callback=_set_lock_timeout,
    expose_value=False,
    help="Wait so long for another lmi that changes the deployment, such as 10m.  [default: fail at once]",
)


def require_region(region: str) -> None:
    """UsageRefused, with the nearest name, if AWS has no such region."""
    from lmi_deploy.catalog import sagemaker_limits
    from lmi_deploy.recipe.name_suggestions import suggestion_text

    if region not in sagemaker_limits.names("regions"):
        near = suggestion_text(region, sagemaker_limits.names("regions"))
        raise UsageRefused(f"{region}: no such AWS region", hint=near or "name one such as us-east-1")


def _parameters(ctx: click.Context, parameter: click.Parameter, pairs: tuple[str, ...]) -> dict[str, Any]:
    """A value that is not JSON is a text."""
    parsed: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageRefused(f"-p {pair}: not KEY=VALUE", hint="for example -p max_tokens=64")
        try:
            parsed[key] = json.loads(value)
        except ValueError:
            parsed[key] = value
    return parsed


def _adapter(ctx: click.Context, parameter: click.Parameter, name: str) -> str:
    """It travels in a header, on SageMaker in a list of `name=value;...`."""
    if name and not re.fullmatch(r"[!-:<-~]{1,256}", name):
        raise UsageRefused(
            f"--adapter {name!r}: not a name of 1 to 256 ASCII characters without spaces and semicolons",
            hint="use the name with which the adapter was registered: that of its folder in adapters/",
        )
    return name


parameters_option = click.option(
    "-p",
    "--parameter",
    "parameters",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_parameters,
    help="Add a parameter to the request, such as max_tokens=64; can be repeated.",
)


def request_options(command: F) -> F:
    """Options of a request to a model."""
    for option in (
        parameters_option,
        click.option(
            "--adapter", default="", metavar="NAME", callback=_adapter, help="Use this LoRA adapter."
        ),
        click.option("--system", default="", help="Add a system prompt."),
    ):
        command = option(command)
    return command


def recipe_options(command: F) -> F:
    command = click.option(
        "--set",
        "sets",
        multiple=True,
        metavar="KEY=VALUE",
        help="Override one key, such as endpoint.port=9000; can be repeated.",
    )(command)
    return click.option("--overlay", metavar="NAME", help="Apply an overlay of the recipe.")(command)


def recipe_output_options(command: F) -> F:
    """Where a command writes a new recipe."""
    command = click.option("--force", is_flag=True, help="Overwrite FILE.")(command)
    return click.option(
        "-o",
        "--output",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="The file to write; - prints the recipe.  [default: NAME.yaml]",
    )(command)


def with_runtime(sets: tuple[str, ...], runtime: str | None) -> tuple[str, ...]:
    """The overrides of a command line that has `runtime_option`, whose value counts as the last of them."""
    return sets if runtime is None else (*sets, f"endpoint.runtime={runtime}")


name_argument = click.argument("name", required=False, metavar="[NAME]")
"""A deployment by name or recipe; optional if there is exactly one."""
names_argument = click.argument("names", nargs=-1, metavar="[NAME]...")


def amount(ctx: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """Not a number is no bound at all: nothing costs more than `nan`."""
    if value is not None and not value >= 0:
        raise click.BadParameter(f"{value:g} is not an amount of dollars, such as 5 or 1.25")
    return value


max_hourly_option = click.option(
    "--max-hourly",
    type=float,
    callback=amount,
    metavar="DOLLARS",
    help="Refuse (exit 5) if the plan may cost more per hour, or if a price is unknown.",
)


def place_options(command: F) -> F:
    """The target of a named deployment, as the argument `where`."""

    @functools.wraps(command)
    def with_where(*, target: TargetName | None, region: str, **given: Any) -> Any:
        from lmi_deploy.api.deployment_lookup import TargetOptions  # `lmi validate` has no use for it

        return command(where=TargetOptions(target=target, region=region), **given)

    region = click.option("--region", default="", help="Target sagemaker: the region.")
    target = click.option(
        "--target", type=click.Choice(["sagemaker", "local"]), help="The target, if the name exists in both."
    )
    return target(region(with_where))  # type: ignore[return-value]
