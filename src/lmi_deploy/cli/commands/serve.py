"""`lmi serve`."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import click

from lmi_deploy.cli.context import CommandContext, open_context
from lmi_deploy.cli.shared_options import json_option
from lmi_deploy.domain.events import Line
from lmi_deploy.errors import DeployFailed
from lmi_deploy.workflows import serve
from lmi_deploy.workflows.error_diagnosis import advice, of_log

ENDED_BY_CTRL_C = 130
_EXPECTED_EXITS = (0, ENDED_BY_CTRL_C, 143)
_LINES = 20_000
"""Kept of the output, to diagnose a failure."""
"""Exit codes of a server that was stopped on request."""


@click.command("serve")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--runtime",
    type=click.Choice(["embedded", "djl-serving", "container"]),
    default="embedded",
    show_default=True,
    help="The model server to use.",
)
@click.option(
    "--image", default="", help="Runtime container: the image, which must already be on this machine."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="The port; 0 takes any free one.",
)
@click.option("--config", "settings", type=click.Path(path_type=Path), help="The server's config.properties.")
@click.option(
    "--python",
    type=click.Path(path_type=Path),
    help="Python interpreter of the workers; created if not given.",
)
@click.option(
    "--log-format",
    type=click.Choice(["lmi", "djl"]),
    default="lmi",
    show_default=True,
    help="Runtime embedded: djl writes the lines that CloudWatch shows for DJLServing.",
)
@click.option(
    "--management",
    is_flag=True,
    help="Runtime embedded: DJLServing's management API on the port, for every user of this machine who can reach it.",
)
@click.option("--watch", "watched", is_flag=True, help="Restart when a file of DIR changes.")
@json_option
def command(
    *,
    folder: Path,
    watched: bool,
    as_json: bool,
    **flags: Any,
) -> int:
    """Serve the model folder DIR (serving.properties, model.py) in the foreground, until Ctrl-C.

    Workers fail as on SageMaker: if one dies or times out, the model is FAILED, unless retry_threshold in
    serving.properties allows a restart. The log names the reason.

    This command is for developers of handlers. The workers' environment has the packages that serving.properties,
    model.py and the folder's requirements.txt need.
    """
    context = open_context(as_json=as_json)
    options = serve.ServeOptions(folder=folder, **flags)
    if watched:
        return _watch(options, context)
    interpreter = context.outcome(serve.prepare(options, context.deps))
    context.view.note(
        f"serving {folder} at http://{options.host}:{options.port}/invocations once it is loaded; Ctrl-C stops it"
    )
    lines: deque[str] = deque(maxlen=_LINES)

    def log(text: str) -> None:
        lines.append(text)
        context.view.show(Line(key="server", text=text))

    # For people the output goes directly to the terminal, with its colours.
    code = serve.run(options, interpreter, context.deps, report=log if as_json else None)
    if code not in _EXPECTED_EXITS:
        raise _failed(folder, code, lines)
    context.view.result({"folder": str(folder), "exit_code": code})
    return code


def _failed(folder: Path, code: int, lines: deque[str]) -> DeployFailed:
    found = of_log(lines, "")
    message = f"{folder}: the model server ended with exit code {code}"
    if found is None:
        hint = f"`lmi serve {folder} 2>&1 | tee server.log`, then `lmi diagnose --log server.log` finds the cause"
        return DeployFailed(message, hint=hint)
    return DeployFailed(f"{message}. {found.cause}", hint=advice(found), details=[found.evidence])


def _watch(options: serve.ServeOptions, context: CommandContext) -> int:
    from lmi_deploy.workflows.serve_watch import watch

    try:
        context.show_events(watch(options, context.deps))
    except KeyboardInterrupt:
        context.view.note("ended")
    context.view.result({"folder": str(options.folder), "exit_code": ENDED_BY_CTRL_C})
    return ENDED_BY_CTRL_C
