"""`lmi serve`."""

from __future__ import annotations

from pathlib import Path

import click

from lmi_deploy.cli.case import open_room
from lmi_deploy.cli.options import json_option
from lmi_deploy.steps import serve


@click.command("serve")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--runtime",
    type=click.Choice(["embedded", "djl-serving", "container"]),
    default="embedded",
    show_default=True,
    help="What runs the folder.",
)
@click.option("--image", default="", help="Runtime container: the image, which must be here already.")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8080, show_default=True, help="0: any free one.")
@click.option(
    "--config", "settings", type=click.Path(path_type=Path), help="config.properties of the server."
)
@click.option(
    "--python", type=click.Path(path_type=Path), help="Interpreter of the workers; else one is made."
)
@json_option
def command(
    *,
    folder: Path,
    runtime: str,
    image: str,
    host: str,
    port: int,
    settings: Path | None,
    python: Path | None,
    as_json: bool,
) -> int:
    """Serve the model folder DIR (serving.properties, model.py) in the foreground, until Ctrl-C.

    For people who write a handler. The worker's environment has what serving.properties and model.py ask for, and
    the folder's requirements.txt on top.
    """
    room = open_room(as_json=as_json)
    wanted = serve.Wanted(
        folder=folder,
        host=host,
        port=port,
        settings=settings,
        python=python,
        runtime=runtime,
        image=image,
    )
    interpreter = room.outcome(serve.prepare(wanted, room.deps))
    room.view.note(f"serving {folder} at http://{host}:{port}/invocations once it is loaded; Ctrl-C ends it")
    code = serve.run(wanted, interpreter, room.deps)
    room.view.result({"folder": str(folder), "exit_code": code})
    return code
