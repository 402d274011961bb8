"""`lmi completion`."""

from __future__ import annotations

import click

from lmi_deploy.cli.completion_scripts import SCRIPTS
from lmi_deploy.cli.shared_options import json_option
from lmi_deploy.ui.view_selection import open_view


@click.command("completion")
@click.argument("shell", type=click.Choice([*SCRIPTS]))
@json_option
def command(*, shell: str, as_json: bool) -> None:
    """Print the completion script of SHELL; for bash: eval "$(lmi completion bash)".

    It completes commands, options and their values, keys and values of --set, recipes, and deployments that were made
    from this machine. For zsh use the same line (after compinit), for fish: lmi completion fish | source
    """
    script = SCRIPTS[shell]
    open_view(as_json=as_json).result({"shell": shell, "script": script}, script)
