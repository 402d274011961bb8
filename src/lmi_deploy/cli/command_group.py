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


GROUPS: dict[str, dict[str, CommandEntry]] = {
    "Deployments": {
        "up": CommandEntry("up", "Create or update a deployment, and check that it answers."),
        "plan": CommandEntry(
            "plan", "Show what `lmi up` would change, without changing anything.", reads=True
        ),
        "adopt": CommandEntry(
            "adopt", "Write the recipe of an endpoint that another tool made, and take the endpoint over."
        ),
        "compile": CommandEntry(
            "compile", "Compile or partition a model once, ahead of time, for `lmi up` to serve."
        ),
        "wait": CommandEntry("wait", "Wait until a deployment started with `lmi up --detach` answers."),
        "status": CommandEntry(
            "status", "Show the state of a deployment: in-step, drifted, absent, failed.", reads=True
        ),
        "ls": CommandEntry("ls", "List the deployments.", reads=True),
        "logs": CommandEntry("logs", "Show the logs of the model server.", reads=True),
        "diagnose": CommandEntry(
            "diagnose", "Say why a deployment failed, by its log or any log.", reads=True
        ),
        "rollback": CommandEntry("rollback", "Roll back to an earlier generation."),
        "scale": CommandEntry("scale", "Set the number of instances of a deployment."),
        "extend": CommandEntry("extend", "Change the time when a deployment expires."),
        "down": CommandEntry("down", "Delete a deployment, and check that nothing is left."),
        "pipeline": CommandEntry(
            "pipeline", "Do a job of a CI pipeline, whose inputs are variables: validate, plan, up, down."
        ),
        "dashboard": CommandEntry(
            "dashboard", "Write a CloudWatch dashboard for a deployment, or print its JSON."
        ),
        "cost": CommandEntry("cost", "Show what deployments in AWS cost in a month.", reads=True),
        "gc": CommandEntry("gc", "Remove expired deployments and leftovers of interrupted runs."),
        "unlock": CommandEntry("unlock", "Remove a stale lock."),
        "weights": CommandEntry("weights", "Manage weights in a bucket: push, ls, verify, rm, copy."),
    },
    "Requests": {
        "invoke": CommandEntry(
            "invoke", "Send a request to a deployment, and stream the response.", reads=True
        ),
        "chat": CommandEntry("chat", "Chat with a deployment.", reads=True),
        "bench": CommandEntry("bench", "Measure a deployment: latency, throughput, cost; compare reports."),
        "token": CommandEntry(
            "token", "Print a short-lived token for a SageMaker endpoint's OpenAI API.", reads=True
        ),
        "proxy": CommandEntry(
            "proxy", "Serve OpenAI's API on this machine, and send requests to deployments."
        ),
    },
    "Recipes": {
        "init": CommandEntry("init", "Write a commented recipe for a model."),
        "import": CommandEntry(
            "import_", "Write a recipe for an existing folder, archive or serving.properties."
        ),
        "migrate": CommandEntry("migrate", "Rewrite a recipe for another version of the server."),
        "validate": CommandEntry("validate", "Check recipes, without network access.", reads=True),
        "fit": CommandEntry("fit", "Compute whether a model fits on an instance type or a GPU.", reads=True),
        "export": CommandEntry("export", "Write the resources of a recipe for CloudFormation or Terraform."),
        "render": CommandEntry("render", "Write the files that would be deployed to a folder."),
        "rehearse": CommandEntry(
            "rehearse", "Deploy a recipe on this machine as on its target, with a small stand-in model."
        ),
        "schema": CommandEntry("schema", "Print the recipe's JSON Schema.", reads=True),
    },
    "This machine": {
        "serve": CommandEntry("serve", "Serve a model folder in the foreground."),
        "emulator": CommandEntry("emulator", "Run an emulator of SageMaker on this machine."),
        "hub": CommandEntry("hub", "Serve a folder of models as the Hugging Face Hub does."),
        "cache": CommandEntry("cache", "List and remove cached files on this machine."),
    },
    "Facts": {
        "images": CommandEntry("images", "List the container images that AWS publishes.", reads=True),
        "instances": CommandEntry(
            "instances",
            "List instance types with their accelerators and prices, or those that hold a model.",
            reads=True,
        ),
        "capacity": CommandEntry(
            "capacity", "Show where a recipe's instance types can be had: quota, price, image.", reads=True
        ),
        "catalog": CommandEntry("catalog", "Show the tables that lmi uses, and refresh the prices."),
        "iam": CommandEntry("iam", "Print the least-privilege IAM policies of a deployment.", reads=True),
        "bootstrap": CommandEntry(
            "bootstrap", "Create a recipe's bucket, roles and policies in a new account."
        ),
    },
    "Help": {
        "doctor": CommandEntry(
            "doctor", "Check this machine, AWS and the Hub, and say how to repair what is broken.", reads=True
        ),
        "explain": CommandEntry(
            "explain", "Explain a recipe key, an option, a failure, an error or an exit code.", reads=True
        ),
        "docs": CommandEntry("docs", "Show or search the documentation.", reads=True),
        "completion": CommandEntry("completion", "Print the completion script for a shell.", reads=True),
    },
}
"""By the headings of `lmi --help`: what people do often comes first."""
COMMANDS: dict[str, CommandEntry] = {
    name: entry for commands in GROUPS.values() for name, entry in commands.items()
}
WORDS_OF_OTHERS = {
    **dict.fromkeys(("deploy", "apply", "create", "push", "update"), "up"),
    **dict.fromkeys(("destroy", "delete", "remove", "rm", "undeploy", "teardown"), "down"),
    **dict.fromkeys(("predict", "request", "query", "ask"), "invoke"),
    **dict.fromkeys(("describe", "show", "get", "info"), "status"),
    **dict.fromkeys(("ps", "list"), "ls"),
    **dict.fromkeys(("run", "start"), "serve"),
    **dict.fromkeys(("check", "lint"), "validate"),
    **dict.fromkeys(("diff", "preview"), "plan"),
    "login": "doctor",
}
"""What other tools call these commands: Terraform, Kubernetes, Docker, SageMaker's SDK."""


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

            near = WORDS_OF_OTHERS.get(args[0]) or next(iter(get_close_matches(args[0], COMMANDS, n=1)), "")
            ctx.fail(f"no such command: {args[0]!r}" + (f", did you mean {near!r}?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        wide = max(map(len, COMMANDS))
        for heading, commands in GROUPS.items():
            with formatter.section(heading):
                # One column of names for all headings.
                formatter.write_dl([(f"{name:<{wide}}", entry.help) for name, entry in commands.items()])


@click.group(cls=Lmi, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="lmi")
def lmi() -> None:
    """Deploy large models on SageMaker or on this machine, and remove them again.

    Start with `lmi up RECIPE`, send requests with `lmi invoke`, delete with `lmi down`.
    """
