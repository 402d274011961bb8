"""`lmi proxy`: find the deployments, then start a separate program and wait for it."""

from __future__ import annotations

import os
from typing import Any

import click

from lmi_deploy.api.deployment_lookup import TargetOptions, find_deployment
from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.shared_options import json_option, names_argument, place_options
from lmi_deploy.domain.openai_client import PROXY_KEY_VARIABLE
from lmi_deploy.workflows.invoke import require_proxied


@click.command("proxy")
@names_argument
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="The port; 0 takes any free one.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on.",
)
@click.option(
    "--api-key",
    envvar=PROXY_KEY_VARIABLE,
    show_envvar=True,
    metavar="KEY",
    help="The key that clients must send; generated and printed if not given. Set it in the variable: other users can "
    "read the command line.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1),
    default=256,
    show_default=True,
    help="Maximum number of requests at one deployment at the same time.",
)
@click.option(
    "--queue",
    type=click.IntRange(0),
    default=1024,
    show_default=True,
    help="Maximum number of requests that wait for one deployment. More get an error (429).",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0.1),
    default=300.0,
    show_default=True,
    help="End a request after this many seconds without data.",
)
@place_options
@json_option
def command(
    *, names: tuple[str, ...], where: TargetOptions, api_key: str | None, as_json: bool, **given: Any
) -> int:
    """Run a server with OpenAI's API on this machine. It forwards requests to the deployments NAME, or, without NAME,
    to all that `lmi ls` lists.

    In a request, `model` is the name of a deployment. lmi signs requests to SageMaker with your AWS credentials, so
    clients need a key: the one that the proxy prints, or your own in LMI_PROXY_API_KEY.

    Ctrl-C stops the server after the running requests have ended, at most 30 s later. A second Ctrl-C stops it at once.
    """
    from lmi_deploy.composition.local import run_proxy

    context = open_context(as_json=as_json)
    refs = [find_deployment(name, context.deps, where) for name in names]
    for ref in refs:
        require_proxied(ref, context.deps)
    flags = [text for name, value in given.items() for text in (f"--{name}", str(value))]
    environ = {**os.environ, **({PROXY_KEY_VARIABLE: api_key} if api_key else {})}
    return run_proxy([*flags, *(["--json"] if as_json else [])], refs, environ)
