"""`lmi bench`: what measures, reports and compares."""

from __future__ import annotations

import click

from lmi_deploy.cli.commands import bench_compare, bench_report, bench_run


class _BenchGroup(click.Group):
    """`lmi bench NAME` is `lmi bench run NAME`: a first argument that is none of its commands belongs to `run`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] not in {*self.commands, *ctx.help_option_names}:
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group("bench", cls=_BenchGroup)
def command() -> None:
    """Measure a deployment, report, and compare reports.

    `lmi bench NAME` is short for `lmi bench run NAME`; its options: `lmi bench run --help`.
    """


command.add_command(bench_run.command)
command.add_command(bench_report.command)
command.add_command(bench_compare.command)
