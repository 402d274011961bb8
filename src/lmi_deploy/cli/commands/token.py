"""`lmi token`."""

from __future__ import annotations

import click

from lmi_deploy.api.deployment_lookup import TargetOptions, find_deployment, ref_fields
from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.shared_options import json_option, name_argument, place_options
from lmi_deploy.workflows.access_token import access_token


@click.command("token")
@name_argument
@click.option(
    "--expires",
    default="1h",
    show_default=True,
    metavar="DURATION",
    help="How long the token is valid, at most 12h.",
)
@place_options
@json_option
def command(*, name: str | None, expires: str, where: TargetOptions, as_json: bool) -> None:
    """Print a short-lived bearer token for the OpenAI API of SageMaker endpoint NAME.

    The token goes to stdout, so you can write OPENAI_API_KEY=$(lmi token NAME). The base URL of the API goes to stderr.

    lmi signs the token on this machine with your AWS credentials. Requests with the token have the permissions of these
    credentials, and need sagemaker:CallWithBearerToken and sagemaker:InvokeEndpoint. The token expires when the
    credentials expire, or earlier. To revoke it, revoke the credentials.

    Do not use the token for streams: the handlers of an LMI image stream JSON lines, which OpenAI's client libraries
    cannot read. Use `lmi proxy` for streams.
    """
    context = open_context(as_json=as_json)
    ref = find_deployment(name, context.deps, where)
    access, ends = access_token(ref, expires, context.deps)
    if not as_json:
        context.view.note(f"base URL: {access.base_url}\nvalid until {ends}")
    token = access.token.value
    fields = {**ref_fields(ref), "token": token, "base_url": access.base_url, "expires_at": ends}
    context.view.result(fields, token)
