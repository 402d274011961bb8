"""`lmi status`."""

from __future__ import annotations

import dataclasses
import sys
from datetime import UTC, datetime

import click

from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.deployment_lookup import find_deployment
from lmi_deploy.cli.shared_options import TargetOptions, json_option, name_argument, place_options
from lmi_deploy.domain.number_text import relative_time, size_text
from lmi_deploy.domain.observed_state import SERVING
from lmi_deploy.domain.sagemaker.transfer_job import ObservedJob
from lmi_deploy.ui.colour import Paint
from lmi_deploy.ui.metrics_text import metrics_facts
from lmi_deploy.workflows.status import EXIT, Status, status

_KEEPS = "`lmi extend {name} 8h` keeps it"


@click.command("status")
@name_argument
@place_options
@json_option
def command(*, name: str | None, where: TargetOptions, as_json: bool) -> int:
    """Show the state of a deployment: in-step, drifted, absent, failed.

    The exit code is 0 for in-step, 4 for drifted, starting or absent, and 1 for failed. This command needs neither the
    Hub nor the model.
    """
    context = open_context(as_json=as_json)
    found = status(find_deployment(name, context.deps, where), context.deps)
    context.view.result(dataclasses.asdict(found), _words(found))
    return EXIT[found.standing]


def _words(found: Status) -> str:
    standing = Paint(sys.stdout).standing(found.standing)
    lines = [f"{found.ref.name}: {standing}" + (f" ({found.why})" if found.why else "")]
    facts = [
        ("cause", found.cause),
        ("next", found.remedy),
        ("in", "" if found.ref.is_here else found.ref.place),
        ("address", found.address),
        ("since", _when(found.since)),
        ("costs", found.cost),
        ("expires", _when(found.expires) + _end(found) * bool(found.expires)),
    ]
    facts += [(key, found.summary.get(key, "")) for key in ("model", "commit", "engine", "task", "runtime")]
    adapters = {
        key.removeprefix("adapter."): value
        for key, value in found.summary.items()
        if key.startswith("adapter.")
    }
    facts += [("adapter", f"{name} ({source})") for name, source in adapters.items()]
    facts.append(("draft", found.summary.get("draft_model", "")))
    if found.endpoint is not None:
        observed = found.endpoint
        facts.append(
            ("endpoint", f"{observed.status}, {observed.count} of {observed.desired_count} instances")
        )
        facts.append(("serves" if observed.status in SERVING else "config", observed.config))
    facts.append(("answers", found.summary.get("async_output", "")))
    for one in found.earlier:
        why = f", {one.gone}" if one.gone else ""
        facts.append(
            (f"{one.number} back", f"{one.config} since {one.since} ({one.model}, {one.instance}{why})")
        )
    if found.metrics is not None:
        facts += metrics_facts(found.metrics)
    facts += [("job", _job(job)) for job in found.jobs]
    if found.server is not None and found.server.pid is not None:
        server = found.server
        facts.append(("process", f"pid {server.pid}, {server.phase}, {size_text(server.memory)} in memory"))
        counted = f"{server.served} served, {server.failed} failed, " if server.counted else ""
        facts.append(("requests", f"{counted}{server.in_flight} in flight"))
    return "\n".join([*lines, *(f"  {key:<9}{value}" for key, value in facts if value)])


def _when(moment: str) -> str:
    """The moment, to copy, and how far it is."""
    return f"{moment} ({relative_time(moment, datetime.now(UTC))})" if moment else ""


def _job(job: ObservedJob) -> str:
    where = f"for {job.instance}" if job.kind == "optimization-job" else f"{job.count} x {job.instance}"
    return f"{job.name} is {job.status}, {where}"


def _end(found: Status) -> str:
    """Who deletes it when it expires."""
    who = "EventBridge Scheduler deletes it" if found.scheduled else "`lmi gc` may delete it" * found.expired
    return f" ({'expired: ' * found.expired}{who}, {_KEEPS.format(name=found.ref.name)})" if who else ""
