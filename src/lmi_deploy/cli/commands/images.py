"""`lmi images`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from lmi_deploy.catalog import images, sagemaker_limits
from lmi_deploy.cli.shared_options import json_option, region_option
from lmi_deploy.errors import NotFound, UsageRefused
from lmi_deploy.recipe.name_suggestions import suggestion_text
from lmi_deploy.ui.table_text import table_width
from lmi_deploy.ui.view_selection import open_view

Row = dict[str, Any]
_SPARE = ("image", "family")
"""An address is wider than most terminals."""


@click.command("images")
@click.argument("family", required=False)
@region_option
@click.option("--version", metavar="V", help="Print only the address of this version; `latest` is allowed.")
@click.option(
    "--source",
    type=click.Choice(["packaged", "sdk"]),
    default="packaged",
    show_default=True,
    help="Read lmi's own table, or the SageMaker SDK if it is installed.",
)
@json_option
def command(*, family: str | None, region: str, version: str | None, source: str, as_json: bool) -> None:
    """List the container images that AWS publishes: the families, or every version of one."""
    view = open_view(as_json=as_json)
    if not images.accounts(region):
        local = (
            suggestion_text(region, sagemaker_limits.names("regions"))
            or "name another region, such as us-east-1"
        )
        raise NotFound(f"{region}: AWS publishes no images in this region", hint=local)
    if version is not None:
        if family is None or source == "sdk":
            what = (
                "--version needs a family"
                if family is None
                else "--version cannot be combined with --source sdk"
            )
            raise UsageRefused(what, hint="run for example `lmi images djl-lmi --version 0.36.0`")
        found = _row(images.image(family, version, region))
        view.result(found, found["image"])
        return
    rows = list(_from_sdk(family, region) if source == "sdk" else _packaged(family, region))
    view.rows(rows, spare=_SPARE)
    table, date = ("the SDK that is installed here", "") if source == "sdk" else images.source()
    view.note(f"{len(rows)} in {region}; from {table}" + (f" ({date})" if date else ""))
    if source == "packaged" and 0 < view.width < _width(rows):
        view.note(f"addresses: `lmi images {family or 'FAMILY'} --version V` prints one, --json all of them")
    view.result({"images": len(rows), "region": region, "source": table, "date": date})


def _width(rows: list[Row]) -> int:
    return table_width([[*rows[0]], *([str(value) for value in row.values()] for row in rows)])


def _packaged(family: str | None, region: str) -> Iterator[Row]:
    if family is not None:
        yield from map(_row, images.published(family, region))
        return
    for name in images.families():
        newest = next(
            (one for one in images.published(name, region) if one.version == images.latest(name)), None
        )
        if newest is not None:
            yield {"family": name, "versions": len(images.versions(name)), "latest": newest.version} | _built(
                newest
            )


def _row(image: images.Image) -> Row:
    return {"family": image.family, "version": image.version, "device": image.device} | _built(image)


def _built(image: images.Image) -> Row:
    return {"cuda": image.cuda, "image": image.uri}


def _from_sdk(family: str | None, region: str) -> Iterator[Row]:
    from lmi_deploy.composition.aws import sdk_families, sdk_images

    if family is None:
        yield from ({"family": name} for name in sdk_families())
        return
    for version, uri in sdk_images(family, region):
        cuda = images.cuda(uri.rpartition(":")[2])
        yield {"family": family, "version": version, "cuda": cuda, "image": uri}
