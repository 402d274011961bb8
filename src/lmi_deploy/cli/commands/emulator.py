"""`lmi emulator`: start a separate program and wait for it."""

from __future__ import annotations

import click

from lmi_deploy.cli.options import json_option


@click.command("emulator")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=4566,
    show_default=True,
    help="Of 127.0.0.1; 0: any free one.",
)
@click.option("--dir", "folder", metavar="DIR", help="Keep the state there, over restarts.")
@click.option(
    "--speed", type=float, metavar="N", help="Emulated seconds in a real one, while nothing is at work."
)
@click.option("--faults", metavar="FILE", help="Fault rules from the start (docs/reference/fault-rules.md).")
@click.option("--s3", metavar="URL", help="An S3 server in place of the built-in one.")
@click.option("--python", metavar="PATH", help="The interpreter that handlers run in.")
@click.option("--engine-dir", metavar="DIR", help="DJL's Python engine, unpacked; else it is fetched once.")
@click.option("--proxy", is_flag=True, help="Let clients come through a byte proxy, with faults of its own.")
@click.option(
    "--key", metavar="ID:SECRET", help="Requests must be signed with this key.  [default: a new one, printed]"
)
@click.option("--enforce-iam", is_flag=True, help="Check every call against its caller's policies.")
@click.option(
    "--lag", metavar="SECONDS", help="Eventual consistency, as AWS has it; or tags=S,reads=S,roles=S."
)
@click.option("--no-containers", is_flag=True, help="Start no model servers; invocations are echoed.")
@click.option("--stop-after", type=float, metavar="SECONDS", help="End by itself.")
@click.option(
    "--parent-pid", type=int, metavar="PID", help="End when this process does.  [default: with lmi]"
)
@json_option
def command(*, as_json: bool, **given: object) -> int:
    """SageMaker on this machine, for rehearsals: one address for all services, any region.

    It prints what to export, and ends with everything it started on Ctrl-C. What it emulates:
    docs/reference/emulator.md.
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
