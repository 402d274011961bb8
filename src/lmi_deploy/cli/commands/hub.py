"""`lmi hub`: start a separate program that serves a folder of models, and wait for it."""

from __future__ import annotations

import os
from pathlib import Path

import click

from lmi_deploy.cli.shared_options import json_option
from lmi_deploy.errors import UsageRefused

TOKEN_VARIABLE = "LMI_HUB_TOKEN"
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@click.group("hub")
def command() -> None:
    """Serve models as the Hugging Face Hub does, for machines that cannot reach it."""


@command.command("serve")
@click.argument("folder", metavar="DIR")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8090,
    show_default=True,
    help="The port; 0 takes any free one.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on. An address that other machines can reach needs --token or --no-token.",
)
@click.option(
    "--token",
    envvar=TOKEN_VARIABLE,
    show_envvar=True,
    metavar="TOKEN",
    help="The token that clients must have in HF_TOKEN. Set it in the variable: other users can read the command line.",
)
@click.option("--no-token", is_flag=True, help="Let everyone who can reach the address read the models.")
@json_option
def serve(*, folder: str, port: int, host: str, token: str | None, no_token: bool, as_json: bool) -> int:
    """Serve the models in DIR with the Hub's protocol, read-only: for lmi, huggingface_hub, transformers and vLLM.

    DIR contains folders ORG/NAME (`hf download ORG/NAME --local-dir DIR/ORG/NAME`), or is the cache of huggingface_hub
    (HF_HOME/hub). Models may be added while it runs. Clients need HF_ENDPOINT with its address.

    Large files without a known hash are hashed at the start, once. Ctrl-C stops the server.
    """
    from lmi_deploy.composition.local import run_hub

    if not Path(folder).is_dir():
        raise UsageRefused(f"{folder}: no such folder", hint="name the folder that contains the models")
    if token and no_token:
        raise UsageRefused(
            "both --token and --no-token are given", hint=f"omit one (is {TOKEN_VARIABLE} set?)"
        )
    if host not in LOOPBACK and not token and not no_token:
        raise UsageRefused(
            f"--host {host}: everyone who can reach this address could read the models",
            hint=f"set the variable {TOKEN_VARIABLE}, or add --no-token if that is wanted",
        )
    flags = [
        "--port",
        str(port),
        "--host",
        host,
        *(["--json"] if as_json else []),
        str(Path(folder).resolve()),
    ]
    environ = {**os.environ, **({TOKEN_VARIABLE: token} if token else {})}
    return run_hub(flags, environ)
