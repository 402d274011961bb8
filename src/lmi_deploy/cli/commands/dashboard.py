"""`lmi dashboard`."""

from __future__ import annotations

import json

import click

from lmi_deploy.api.deployment_lookup import TargetOptions, find_deployment
from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.shared_options import json_option, name_argument, place_options
from lmi_deploy.workflows.dashboard import dashboard


@click.command("dashboard")
@name_argument
@place_options
@json_option
def command(*, name: str | None, where: TargetOptions, as_json: bool) -> None:
    """Print a CloudWatch dashboard for deployment NAME: requests, errors, latency, use of its instances.

    It is the JSON that CloudWatch's PutDashboard takes; nothing is written to the account. AWS's own command line
    creates the dashboard from it, and stderr shows that command.

    AWS charges $3 a month for each dashboard after the first three of an account.
    """
    context = open_context(as_json=as_json)
    ref = find_deployment(name, context.deps, where)
    made = dashboard(ref, context.deps)
    if not as_json:
        context.view.note(
            f"create it:  lmi dashboard {ref.name} > dashboard.json\n"
            f"            aws cloudwatch put-dashboard --dashboard-name {made.name} --dashboard-body "
            f"file://dashboard.json\n"
            f"delete it:  aws cloudwatch delete-dashboards --dashboard-names {made.name}\n"
            "cost:       $3 a month for each dashboard after the first three of an account"
        )
    context.view.result({"dashboard_name": made.name, "body": made.body}, json.dumps(made.body, indent=2))
