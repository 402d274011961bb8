"""`lmi status`."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import click

from lmi_deploy.api.deployment_lookup import TargetOptions, find_deployment
from lmi_deploy.cli.context import CommandContext, open_context
from lmi_deploy.cli.shared_options import json_option, name_argument, place_options
from lmi_deploy.domain.number_text import relative_time, size_text
from lmi_deploy.domain.observed_state import SERVING
from lmi_deploy.domain.sagemaker.resource_settings import ObservedEndpoint
from lmi_deploy.domain.sagemaker.transfer_job import ObservedJob
from lmi_deploy.domain.serving_record import share_words
from lmi_deploy.errors import LmiError, UsageRefused
from lmi_deploy.ui.colour import Paint
from lmi_deploy.ui.metrics_text import metrics_facts
from lmi_deploy.workflows.extend import read_duration
from lmi_deploy.workflows.status import EVERY, EXIT, Status, status, watched

_EVERY: Final = "30s"


@click.command("status")
@name_argument
@click.option("--watch", "watching", is_flag=True, help="Show it again and again, until Ctrl-C.")
@click.option(
    "--every",
    metavar="DURATION",
    help="With --watch: the pause between two reads (5s to 1h).  [default: 30s]",
)
@click.option("--calls", is_flag=True, help="Also print commands and code that call it.")
@place_options
@json_option
def command(
    *, name: str | None, watching: bool, every: str | None, calls: bool, where: TargetOptions, as_json: bool
) -> int:
    """Show the state of a deployment: in-step, drifted, absent, failed.

    The exit code is 0 for in-step, 4 for drifted, starting or absent, and 1 for failed. This command needs neither the
    Hub nor the model.

    --watch refreshes it in a terminal, and elsewhere adds a line for each read. After Ctrl-C the exit code is that of
    the last state.
    """
    if every is not None and not watching:
        raise UsageRefused("--every needs --watch", hint="add --watch, or omit --every")
    if calls and watching:
        raise UsageRefused("--calls and --watch cannot be combined", hint="omit one of them")
    pause = read_duration(every or _EVERY, EVERY)
    context = open_context(as_json=as_json)
    ref = find_deployment(name, context.deps, where)
    if watching:
        found = _watch(watched(ref, context.deps, every=pause), context)
    else:
        found = status(ref, context.deps, calls=calls)
    if calls and not found.calls:
        context.view.note(f"{ref.name}: nothing serves that could be called")
    text = "\n\n".join(filter(None, (_words(found), found.calls)))
    context.view.result(dataclasses.asdict(found), "" if watching else text)
    return EXIT[found.standing]


def _watch(states: Iterator[Status | LmiError], context: CommandContext) -> Status:
    """The last state before Ctrl-C; without one, Ctrl-C interrupts the command."""
    last: Status | None = None
    try:
        for found in states:
            if isinstance(found, LmiError):
                context.view.note(f"not read: {found.message}; the next read follows")
                continue
            last = found
            fields = {
                "read": context.deps.clock.now().isoformat(timespec="seconds"),
                **dataclasses.asdict(found),
            }
            lines = [f"{fields['read']}, until Ctrl-C", *_words(found).split("\n")]
            context.view.refresh(fields, lines, f"{fields['read']}  {_line(found)}")
    except KeyboardInterrupt:
        if last is None:
            raise
    assert last is not None, "states have no end"
    return last


def _line(found: Status) -> str:
    parts = [found.standing + (f" ({found.why})" if found.why else "")]
    if found.endpoint is not None:
        parts.append(_instances(found.endpoint))
    if found.metrics is not None:
        parts += [words for _, words in metrics_facts(found.metrics) if words]
    return f"{found.ref.name}: {'; '.join(parts)}"


def _instances(observed: ObservedEndpoint) -> str:
    pools = ", ".join(f"{count} x {name}" for name, count in observed.running_types)
    units = f"copies on the shared endpoint {observed.shared}" if observed.shared else "instances"
    return f"{observed.status}, {observed.count} of {observed.desired_count} {units}" + f" ({pools})" * bool(
        pools
    )


def _candidate(observed: ObservedEndpoint) -> str:
    candidate = observed.candidate
    if candidate is None:
        return ""
    share = share_words(candidate.percent, shadow=candidate.shadow)
    return f"{candidate.count} of {candidate.desired_count} instances, {share}"


def _words(found: Status) -> str:
    standing = Paint(sys.stdout).standing(found.standing)
    lines = [f"{found.ref.name}: {standing}" + (f" ({found.why})" if found.why else "")]
    facts = [
        ("cause", found.cause),
        ("next", found.remedy),
        ("in", "" if found.ref.is_here else found.ref.place),
        ("address", found.address),
        ("since", _when(found.since)),
        ("by", found.author.words),
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
        facts.append(("endpoint", _instances(observed)))
        facts.append(("candidate", _candidate(observed)))
        facts.append(("scales", found.scaling))
        facts.append(("alarms", found.alarms))
        facts.append(("serves" if observed.status in SERVING else "config", observed.config))
    facts.append(("answers", found.summary.get("async_output", "")))
    for one in found.earlier:
        why = f", {one.gone}" if one.gone else ""
        facts.append(
            (f"{one.number} back", f"{one.config} since {one.since} ({one.model}, {one.instance}{why})")
        )
    if found.metrics is not None:
        facts += metrics_facts(found.metrics)
    if found.candidate_metrics is not None:
        facts += [
            (name, f"{words} (candidate)" * bool(words))
            for name, words in metrics_facts(found.candidate_metrics)
        ]
    facts += [("job", _job(job)) for job in found.jobs]
    if found.server is not None and found.server.pid is not None:
        server = found.server
        facts.append(("process", f"pid {server.pid}, {server.phase}, {size_text(server.memory)} in memory"))
        counted = f"{server.served} served, {server.failed} failed, " if server.counted else ""
        facts.append(("requests", f"{counted}{server.in_flight} in flight"))
    return "\n".join([*lines, *(f"  {key:<8} {value}" for key, value in facts if value)])


def _when(moment: str) -> str:
    """The moment, to copy, and how far it is."""
    return f"{moment} ({relative_time(moment, datetime.now(UTC))})" if moment else ""


def _job(job: ObservedJob) -> str:
    where = f"for {job.instance}" if job.kind == "optimization-job" else f"{job.count} x {job.instance}"
    return f"{job.name} is {job.status}, {where}"


def _end(found: Status) -> str:
    """Who deletes it when it expires."""
    who = "EventBridge Scheduler deletes it" if found.scheduled else "`lmi gc` may delete it" * found.expired
    return (
        f" ({'expired: ' * found.expired}{who}, `{found.ref.command('extend')} 8h` keeps it)" if who else ""
    )
