"""`lmi gc`: what interrupted runs left in a bucket."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import click

from lmi_deploy.cli.case import open_room
from lmi_deploy.cli.find import confirm
from lmi_deploy.cli.options import json_option, yes_option
from lmi_deploy.cli.weights import bucket_options
from lmi_deploy.core.weights import BucketWish


@click.command("gc")
@bucket_options
@click.option(
    "--older-than", default=24.0, show_default=True, help="Hours; a push that still runs is younger."
)
@yes_option
@json_option
def command(*, bucket: str, region: str, profile: str, older_than: float, yes: bool, as_json: bool) -> None:
    """Find and free what broken pushes left: parts of uploads nobody completed, objects without a manifest.

    Only what lies under our own prefixes is looked at. A lifecycle rule does the same for uploads: see docs/weights.md.
    """
    room = open_room(as_json=as_json)
    there = room.deps.weights(BucketWish(bucket=bucket, region=region, profile=profile), None)
    before = room.deps.clock.now() - timedelta(hours=older_than)
    found = there.leftovers(before=before)
    room.view.rows([dataclasses.asdict(one) for one in found])
    if not found:
        room.view.note(f"nothing older than {older_than:g} h is left over in {there.where}")
    else:
        confirm(f"Free {len(found)} leftovers?", yes=yes)
        there.clear(before=before)
    room.view.result({"freed": len(found)})
