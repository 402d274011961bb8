"""`lmi completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from lmi_deploy.cli.shared_options import json_option
from lmi_deploy.ui.view_selection import open_view


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@json_option
def command(*, shell: str, as_json: bool) -> None:
    """Print the completion script of SHELL; for bash: eval "$(lmi completion bash)"."""
    from lmi_deploy.cli.command_group import lmi

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(lmi, {}, "lmi", "_LMI_COMPLETE").source()
    open_view(as_json=as_json).result({"shell": shell, "script": script}, script)
