"""`lmi bench`: what measures, reports and compares."""

from __future__ import annotations

import click

from lmi_deploy.cli.commands import bench_compare, bench_report


@click.group("bench")
def command() -> None:
    """Report on measurements of a deployment, and compare them."""


command.add_command(bench_report.command)
command.add_command(bench_compare.command)
