"""`lmi emulator`: start a separate program and wait for it."""

from __future__ import annotations

import click

from lmi_deploy.cli.shared_options import json_option


@click.command("emulator")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=4566,
    show_default=True,
    help="The port on 127.0.0.1; 0 takes any free one.",
)
@click.option("--dir", "folder", metavar="DIR", help="Keep the state in this folder across restarts.")
@click.option(
    "--speed", type=float, metavar="N", help="Emulated seconds per real second, while nothing is running."
)
@click.option(
    "--faults", metavar="FILE", help="Fault rules to apply from the start (`lmi docs fault-rules`)."
)
@click.option("--s3", metavar="URL", help="An S3 server to use in place of the built-in one.")
@click.option("--registry", metavar="URL", help="A registry program (OCI) behind ECR, for `container.build`.")
@click.option("--python", metavar="PATH", help="The Python interpreter that runs handlers.")
@click.option(
    "--engine-dir", metavar="DIR", help="DJL's Python engine, unpacked; downloaded once if not given."
)
@click.option(
    "--proxy", is_flag=True, help="Put a proxy in front that can cut and delay connections, by fault rules."
)
@click.option(
    "--key",
    metavar="ID:SECRET",
    help="The key that requests must be signed with.  [default: a new one, printed]",
)
@click.option("--enforce-iam", is_flag=True, help="Check each call against the policies of its caller.")
@click.option(
    "--lag", metavar="SECONDS", help="Delay reads, tags and roles, as AWS may; or tags=S,reads=S,roles=S."
)
@click.option("--no-containers", is_flag=True, help="Start no model servers; an endpoint echoes the request.")
@click.option("--stop-after", type=float, metavar="SECONDS", help="Stop after this time.")
@click.option(
    "--parent-pid",
    type=int,
    metavar="PID",
    help="Stop when this process ends.  [default: the process of this command]",
)
@json_option
def command(*, as_json: bool, **given: object) -> int:
    """Run an emulator of SageMaker on this machine: one address for all services and regions.

    It prints the variables to export. Ctrl-C stops it and everything that it started. What it emulates:
    `lmi docs emulator`.
    """
    from lmi_deploy.composition.local import run_emulator

    return run_emulator(_flags({**given, "json": as_json}))


def _flags(given: dict[str, object]) -> list[str]:
    """The command line again, as the program reads it."""
    flags: list[str] = []
    for name, value in given.items():
        flag = "--" + ("dir" if name == "folder" else name.replace("_", "-"))
        if value is True:
            flags.append(flag)
        elif value is not None and value is not False:
            flags += [flag, str(value)]
    return flags
