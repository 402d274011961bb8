"""`lmi dashboard`."""

from __future__ import annotations

import json

import click

from lmi_deploy.api.deployment_lookup import TargetOptions, find_deployment
from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.shared_options import json_option, name_argument, place_options
from lmi_deploy.workflows.dashboard import dashboard, write_dashboard


@click.command("dashboard")
@name_argument
@click.option(
    "--print",
    "only_print",
    is_flag=True,
    help="Print its JSON body, as PutDashboard takes it; write nothing.",
)
@place_options
@json_option
def command(*, name: str | None, only_print: bool, where: TargetOptions, as_json: bool) -> None:
    """Write a CloudWatch dashboard for deployment NAME: requests, errors, latency, use of its instances.

    The next run replaces it, with changes that were made in the console. `lmi down` and `lmi gc` delete it.

    AWS charges $3 a month for each dashboard after the first three of an account.
    """
    context = open_context(as_json=as_json)
    ref = find_deployment(name, context.deps, where)
    made = dashboard(ref, context.deps)
    if only_print:
        context.view.result({"dashboard_name": made.name, "body": made.body}, json.dumps(made.body, indent=2))
        return
    address = write_dashboard(ref, made, context.deps)
    context.view.note(
        f"wrote the dashboard {made.name}: $3 a month, if the account has three or more; `{ref.command('down')}` "
        "deletes it"
    )
    context.view.result({"dashboard_name": made.name, "address": address}, address)
