"""The group of all commands. Help is read from a literal table, so that no command's module is imported for it."""

from __future__ import annotations

import importlib
from typing import NamedTuple

import click

from lmi_deploy import __version__


class CommandEntry(NamedTuple):
    """The module of a command, and its line in `lmi --help`.

    A command with `reads` exits when the reader of its output is gone; any other continues to its end.
    """

    module: str
    help: str
    reads: bool = False


COMMANDS: dict[str, CommandEntry] = {
    "up": CommandEntry("up", "Make the deployment what the recipe says, and prove that it answers."),
    "plan": CommandEntry("plan", "Show what `lmi up` would change. Writes nothing, anywhere.", reads=True),
    "status": CommandEntry(
        "status", "Say whether a deployment is in step, drifted, absent or failed.", reads=True
    ),
    "ls": CommandEntry("ls", "List the deployments.", reads=True),
    "invoke": CommandEntry("invoke", "Ask a deployment, and stream its answer.", reads=True),
    "logs": CommandEntry("logs", "Show what the model server printed.", reads=True),
    "down": CommandEntry("down", "Take a deployment away, and check that nothing is left."),
    "wait": CommandEntry("wait", "Wait for what `lmi up --detach` began."),
    "rollback": CommandEntry("rollback", "Go back to the generation before."),
    "extend": CommandEntry("extend", "Let a deployment live longer than its ttl."),
    "unlock": CommandEntry("unlock", "Take away the lock of a run that is dead."),
    "validate": CommandEntry("validate", "Check recipes without touching the network.", reads=True),
    "fit": CommandEntry(
        "fit", "Say whether a model fits on an instance type or a GPU, with the sum.", reads=True
    ),
    "render": CommandEntry("render", "Write the files that would ship, without shipping them."),
    "serve": CommandEntry("serve", "Serve a model folder in the foreground."),
    "emulator": CommandEntry("emulator", "SageMaker on this machine, for rehearsals."),
    "init": CommandEntry("init", "Look at a model and write a commented recipe for it."),
    "import": CommandEntry(
        "import_", "Make a recipe of a serving.properties, a folder, an archive or variables."
    ),
    "migrate": CommandEntry("migrate", "Rewrite a recipe for another version of the server."),
    "weights": CommandEntry("weights", "Models in a bucket: push, ls, verify, rm, copy."),
    "gc": CommandEntry("gc", "Free what expired, and what interrupted runs left."),
    "images": CommandEntry("images", "List the container images that AWS publishes.", reads=True),
    "instances": CommandEntry(
        "instances",
        "List instance types with their accelerators and prices, or those that hold a model.",
        reads=True,
    ),
    "iam": CommandEntry(
        "iam", "Print the least-privilege policies of a deployment on SageMaker.", reads=True
    ),
    "schema": CommandEntry("schema", "Print the recipe's JSON Schema.", reads=True),
    "cache": CommandEntry("cache", "Show and free what lmi keeps on this machine."),
    "completion": CommandEntry("completion", "Print the completion script of a shell.", reads=True),
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

            local = get_close_matches(args[0], COMMANDS, n=1)
            ctx.fail(f"no command {args[0]!r}" + (f", did you mean {local[0]!r}?" if local else ""))
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
