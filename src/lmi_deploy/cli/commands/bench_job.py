"""`lmi bench job`: what each machine of a load job runs. SageMaker starts it."""

from __future__ import annotations

import json
from pathlib import Path

import click

from lmi_deploy.api.load_measurement import require_client
from lmi_deploy.cli.context import open_context
from lmi_deploy.errors import UsageRefused

_FILE = click.Path(exists=True, path_type=Path)


@click.command("job", hidden=True)
@click.argument("folder", type=_FILE)
@click.argument("resources", type=_FILE)
@click.option("--bucket", required=True)
@click.option("--owner", required=True)
@click.option("--prefix", required=True)
def command(*, folder: Path, resources: Path, bucket: str, owner: str, prefix: str) -> None:
    """Send this machine's share of the loads; FOLDER has the requests, RESOURCES is SageMaker's resourceconfig.json."""
    from lmi_deploy.bench.load_job_messages import (
        REQUEST,
        REQUESTS,
        LoadJobRequest,
        unpacked,
        unpacked_requests,
    )
    from lmi_deploy.bench.load_machine import LoadMachine
    from lmi_deploy.bench.load_share import LoadShare
    from lmi_deploy.bench.request_target import DeploymentTarget
    from lmi_deploy.composition.load_job import open_load_machine
    from lmi_deploy.engines.inference_codec import named_codec

    context = open_context(as_json=False)
    require_client()
    request = unpacked(LoadJobRequest, (folder / REQUEST).read_bytes(), REQUEST)
    number, machines = _place(resources)
    store, endpoint = open_load_machine(request.endpoint, bucket, owner)
    codec = named_codec(
        engine=request.engine, handler=request.handler, template=request.template, task=request.task
    )
    machine = LoadMachine(
        request=request,
        requests=unpacked_requests((folder / REQUESTS).read_bytes(), REQUESTS),
        target=DeploymentTarget(endpoint=endpoint, codec=codec),
        share=LoadShare(number=number, machines=machines),
        store=store,
        prefix=prefix,
        clock=context.deps.clock,
        say=context.view.note,
    )
    context.view.result({"machine": number, "loads": machine.run()}, "all loads are sent")


def _place(resources: Path) -> tuple[int, int]:
    """This machine's number from 0, and how many there are: `current_host` and `hosts`, whose order is that of their
    names (SageMaker's developer guide, "Build your own processing container").
    """
    try:
        found = json.loads(resources.read_text("utf-8"))
        hosts = sorted(found["hosts"], key=lambda host: (len(host), host))
        return hosts.index(found["current_host"]), len(hosts)
    except (KeyError, TypeError, ValueError) as reason:
        raise UsageRefused(
            f"{resources}: not a resource configuration: {reason}",
            hint="SageMaker starts this command; use `lmi bench NAME --via job`",
        ) from reason
