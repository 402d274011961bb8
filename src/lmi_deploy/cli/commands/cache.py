"""`lmi cache`: list what is cached on this machine, and free it."""

from __future__ import annotations

import click

from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.options import json_option, yes_option
from lmi_deploy.cli.prompts import confirm
from lmi_deploy.domain.number_text import counted, size_text
from lmi_deploy.errors import NotFound, UsageRefused


@click.group("cache")
def command() -> None:
    """Show and free what lmi keeps on this machine: serving environments, DJL's engine, models out of a bucket.

    It lies in LMI_CACHE_HOME (else ~/.cache/lmi). Files from the Hub are in the Hub's own cache (HF_HOME); `hf cache`
    shows and frees those. What is known of deployments lies apart, in LMI_STATE_HOME (else ~/.local/state/lmi), and
    goes with `lmi down`.
    """


@command.command("ls")
@json_option
def ls(*, as_json: bool) -> None:
    """What is kept, and how big it is."""
    context = open_context(as_json=as_json)
    entries = context.deps.environments.entries()
    context.view.rows(
        [{"name": e.name, "kind": e.kind, "size": e.size, "path": str(e.path)} for e in entries]
    )
    total = sum(entry.size for entry in entries)
    context.view.note(f"{counted(len(entries), 'entry', 'entries')}, {size_text(total)}")
    context.view.result({"entries": len(entries), "bytes": total})


@command.command("rm")
@click.argument("names", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Free every entry.")
@yes_option
@json_option
def rm(*, names: tuple[str, ...], everything: bool, yes: bool, as_json: bool) -> None:
    """Free entries by name; they are made again when they are needed."""
    context = open_context(as_json=as_json)
    if not names and not everything:
        raise UsageRefused("which entries?", hint="`lmi cache ls` shows their names; --all frees every one")
    sizes = {entry.name: entry.size for entry in context.deps.environments.entries()}
    chosen = tuple(sizes) if everything else names
    if unknown := [name for name in chosen if name not in sizes]:
        hint = "`lmi cache ls` shows what there is"
        raise NotFound(f"{', '.join(unknown)}: nothing of that name is kept here", hint=hint)
    confirm(
        f"Free {counted(len(chosen), 'entry', 'entries')} ({size_text(sum(sizes[name] for name in chosen))})?",
        yes=yes,
    )
    freed = sum(context.deps.environments.remove(name) for name in chosen)
    context.view.note(f"freed {size_text(freed)}")
    context.view.result({"removed": list(chosen), "bytes": freed})
