"""`lmi weights job`: one instance's part of a transfer that runs inside AWS. Started by the job, not by people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.options import json_option
from lmi_deploy.domain.sagemaker.transfer_job import read_order
from lmi_deploy.errors import UsageRefused


@click.command("job", hidden=True)
@click.argument("order", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("resources", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@json_option
def job(*, order: Path, resources: Path, as_json: bool) -> None:
    """Transfer this instance's files of ORDER; RESOURCES is SageMaker's resourceconfig.json."""
    from lmi_deploy.composition.transfer_job import open_order

    context = open_context(as_json=as_json)
    required = _read(order, read_order)
    number, count = _read(resources, _place)
    weights, source = open_order(required)
    manifest = context.outcome(weights.push_shard(required, source, number=number, count=count, key="job"))
    state = "complete" if manifest else "this part is done; other parts are still running"
    context.view.result({"job": required.job, "complete": manifest is not None}, state)


def _read(path: Path, reader: Any) -> Any:
    try:
        return reader(path.read_text("utf-8"))
    except ValueError as exc:
        raise UsageRefused(
            f"{path}: {exc}", hint="SageMaker starts this command; use `lmi weights push`"
        ) from exc


def _place(text: str) -> tuple[int, int]:
    found = json.loads(text)
    try:
        hosts = sorted(found["hosts"], key=lambda host: (len(host), host))
        return hosts.index(found["current_host"]), len(hosts)
    except (KeyError, TypeError) as exc:
        raise ValueError(f"not a resource configuration: {exc}") from exc
