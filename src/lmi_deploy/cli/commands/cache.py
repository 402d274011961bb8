"""`lmi cache`: list what is cached on this machine, and free it."""

from __future__ import annotations

import click

from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.prompts import confirm
from lmi_deploy.cli.shared_options import json_option, yes_option
from lmi_deploy.domain.number_text import counted, size_text
from lmi_deploy.errors import NotFound, UsageRefused


@click.group("cache")
def command() -> None:
    """List and remove cached files on this machine: serving environments, DJL's engine, models from buckets,
    results of `lmi compile`.

    The cache is in LMI_CACHE_HOME (else ~/.cache/lmi). Files from the Hub are in the Hub's own cache (HF_HOME); `hf
    cache` lists and removes those. Records of deployments are in LMI_STATE_HOME (else ~/.local/state/lmi); `lmi down`
    removes them.
    """


@command.command("ls")
@json_option
def ls(*, as_json: bool) -> None:
    """List the entries and their sizes."""
    context = open_context(as_json=as_json)
    entries = (*context.deps.environments.entries(), *context.deps.compiled_models.entries())
    context.view.rows(
        [{"name": e.name, "kind": e.kind, "size": e.size, "path": str(e.path)} for e in entries],
        spare=("path",),
    )
    total = sum(entry.size for entry in entries)
    context.view.note(f"{counted(len(entries), 'entry', 'entries')}, {size_text(total)}")
    context.view.result({"entries": len(entries), "bytes": total})


@command.command("rm")
@click.argument("names", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Remove every entry.")
@yes_option
@json_option
def rm(*, names: tuple[str, ...], everything: bool, yes: bool, as_json: bool) -> None:
    """Remove entries by name; lmi creates them again when they are needed, and `lmi compile` its results."""
    context = open_context(as_json=as_json)
    if not names and not everything:
        raise UsageRefused(
            "no entries given", hint="name the entries (`lmi cache ls` lists them), or add --all"
        )
    environments, compiled_models = context.deps.environments, context.deps.compiled_models
    results = {entry.name: entry.size for entry in compiled_models.entries()}
    sizes = {entry.name: entry.size for entry in environments.entries()} | results
    chosen = tuple(sizes) if everything else names
    if unknown := [name for name in chosen if name not in sizes]:
        hint = "`lmi cache ls` lists the entries"
        raise NotFound(f"{', '.join(unknown)}: not in the cache", hint=hint)
    confirm(
        f"Remove {counted(len(chosen), 'entry', 'entries')} ({size_text(sum(sizes[name] for name in chosen))})?",
        yes=yes,
    )
    freed = sum((compiled_models if name in results else environments).remove(name) for name in chosen)
    context.view.note(f"freed {size_text(freed)}")
    context.view.result({"removed": list(chosen), "bytes": freed})
