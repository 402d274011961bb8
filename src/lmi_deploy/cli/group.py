"""The group of all commands. Help comes from a literal table, so that no command's module is imported for it."""

from __future__ import annotations

import importlib
from typing import NamedTuple

import click

from lmi_deploy import __version__


class Entry(NamedTuple):
    """Where a command lives, and the line that `lmi --help` shows for it.

    One that only `reads` ends when the reader of its output is gone; any other goes on to its end."""

    module: str
    help: str
    reads: bool = False


COMMANDS: dict[str, Entry] = {
    "up": Entry("up", "Make the deployment what the recipe says, and prove that it answers."),
    "plan": Entry("plan", "Show what `lmi up` would change. Writes nothing, anywhere.", reads=True),
    "status": Entry("status", "Say whether a deployment is in step, drifted, absent or failed.", reads=True),
    "ls": Entry("ls", "List the deployments.", reads=True),
    "invoke": Entry("invoke", "Ask a deployment, and stream its answer.", reads=True),
    "logs": Entry("logs", "Show what the model server printed.", reads=True),
    "down": Entry("down", "Take a deployment away, and check that nothing is left."),
    "wait": Entry("wait", "Wait for what `lmi up --detach` began."),
    "rollback": Entry("rollback", "Go back to the generation before."),
    "extend": Entry("extend", "Let a deployment live longer than its ttl."),
    "unlock": Entry("unlock", "Take away the lock of a run that is dead."),
    "validate": Entry("validate", "Check recipes without touching the network.", reads=True),
    "fit": Entry("fit", "Say whether a model fits on an instance type or a GPU, with the sum.", reads=True),
    "render": Entry("render", "Write the files that would ship, without shipping them."),
    "serve": Entry("serve", "Serve a model folder in the foreground."),
    "emulator": Entry("emulator", "SageMaker on this machine, for rehearsals."),
    "init": Entry("init", "Look at a model and write a commented recipe for it."),
    "weights": Entry("weights", "Models in a bucket: push, ls, verify, rm, copy."),
    "gc": Entry("gc", "Free what expired, and what interrupted runs left."),
    "images": Entry("images", "List the container images that AWS publishes.", reads=True),
    "instances": Entry(
        "instances",
        "List instance types with their accelerators and prices, or those that hold a model.",
        reads=True,
    ),
    "iam": Entry("iam", "Print the least-privilege policies of a deployment on SageMaker.", reads=True),
    "schema": Entry("schema", "Print the recipe's JSON Schema.", reads=True),
    "cache": Entry("cache", "Show and free what lmi keeps on this machine."),
    "completion": Entry("completion", "Print the completion script of a shell.", reads=True),
}


class Lmi(click.Group):
    """A group whose commands are imported only when they run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module = importlib.import_module(f"lmi_deploy.cli.commands.{entry.module}")
        command = module.command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            ctx.fail(f"no command {args[0]!r}" + (f", did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


@click.group(cls=Lmi, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="lmi")
def lmi() -> None:
    """From a short recipe to an answering large-model endpoint, and back to nothing.

    Start with `lmi up RECIPE`, ask with `lmi invoke`, end with `lmi down`.
    """
