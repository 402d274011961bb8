"""`lmi bench`: what measures, reports and compares."""

from __future__ import annotations

import click

from lmi_deploy.cli.commands import bench_compare, bench_experiment, bench_job, bench_report, bench_run


class _BenchGroup(click.Group):
    """`lmi bench NAME` is `lmi bench run NAME`: a first argument that is none of its commands belongs to `run`, and a
    recipe with `bench` to `experiment`.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] not in {*self.commands, *ctx.help_option_names}:
            is_experiment = any(map(bench_experiment.declares_experiment, args))
            args = ["experiment" if is_experiment else "run", *args]
        return super().parse_args(ctx, args)


@click.group("bench", cls=_BenchGroup)
def command() -> None:
    """Measure a deployment, report, and compare reports.

    `lmi bench NAME` is short for `lmi bench run NAME`, and `lmi bench RECIPE` with the key `bench` for
    `lmi bench experiment RECIPE`; options: `lmi bench run --help`, `lmi bench experiment --help`.
    """


command.add_command(bench_run.command)
command.add_command(bench_experiment.command)
command.add_command(bench_job.command)
command.add_command(bench_report.command)
command.add_command(bench_compare.command)
