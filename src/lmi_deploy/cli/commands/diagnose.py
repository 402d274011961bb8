"""`lmi diagnose`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from lmi_deploy.api.deployment_lookup import TargetOptions, find_deployment
from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.shared_options import json_option, name_argument, place_options
from lmi_deploy.domain.number_text import counted
from lmi_deploy.errors import UsageRefused
from lmi_deploy.planning.failure_cause import Cause, as_fields
from lmi_deploy.planning.setting_names import settings_text, with_recipe_keys
from lmi_deploy.ui.view_selection import open_view
from lmi_deploy.workflows.error_diagnosis import DiagnosedLog, of_deployment, of_excerpt
from lmi_deploy.workflows.log_excerpt import decoded_lines, excerpt, read_log


@click.command("diagnose")
@name_argument
@place_options
@click.option(
    "--log",
    "log_file",
    metavar="FILE",
    help="Diagnose this file instead of a deployment's log; - is standard input.",
)
@json_option
def command(*, name: str | None, where: TargetOptions, log_file: str | None, as_json: bool) -> None:
    """Say why a deployment failed: the first cause that its log shows, that line, and what to do.

    The log is that of `lmi logs NAME`, or any file, also of a server that lmi did not deploy. The causes are found by
    the table of known failures, by the messages in the sources of vLLM, transformers and others, and by the structure
    of the log. Of a deployment that serves it says so first. Without a failure in the log, the list is empty. The exit
    code is 0 whenever the log was read.
    """
    if log_file is None:
        context = open_context(as_json=as_json)
        ref = find_deployment(name, context.deps, where)
        view, found, log = context.view, of_deployment(ref, context.deps), ref.command("logs")
    elif name is not None:
        raise UsageRefused("a deployment and --log were given", hint="give one of them")
    else:
        view, found, log = open_view(as_json=as_json), _of_file(log_file), log_file
    words = [*_words(found.causes, lines=found.lines, log="standard input" if log == "-" else log)]
    if found.serves:
        more = " What its log shows failed in a request, or in an earlier start:" if found.causes else ""
        words = [f"the deployment is in step: it serves.{more}", *words]
    fields = {
        "causes": [as_fields(cause) for cause in found.causes],
        "lines": found.lines,
        "serves": found.serves,
    }
    view.result(fields, "\n".join(words))


def _of_file(name: str) -> DiagnosedLog:
    if name == "-":
        return of_excerpt(excerpt(decoded_lines(sys.stdin.buffer, "standard input")))
    return of_excerpt(read_log(Path(name)))


def _words(causes: tuple[Cause, ...], *, lines: int, log: str) -> Iterator[str]:
    """One page: the first cause in full, the others in two lines each, then where the whole log is."""
    if not causes:
        yield f"no failure found in the {counted(lines, 'line')} of {log}" if lines else f"{log} is empty"
        return
    first, *others = causes
    yield f"cause: {first.cause}"
    facts = [
        (f"line {first.line}" if first.line else "fact", first.evidence),
        ("next", with_recipe_keys(first.remedy)),
        ("settings", settings_text(first.settings)),
        ("confidence", first.confidence),
        ("source", first.source),
        ("more", first.more),
    ]
    yield from (f"  {key}: {value}" for key, value in facts if value)
    if others:
        yield "further failures, perhaps consequences:"
        for other in others:
            yield f"  line {other.line}: {other.evidence}"
            yield f"    {other.cause}"
    yield f"the whole log: {log} ({counted(lines, 'line')})"
