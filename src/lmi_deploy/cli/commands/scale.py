"""`lmi scale`."""

from __future__ import annotations

import click

from lmi_deploy.api.deployment_lookup import TargetOptions, find_deployment, ref_fields
from lmi_deploy.cli.context import open_context
from lmi_deploy.cli.prompts import confirm
from lmi_deploy.cli.shared_options import (
    json_option,
    lock_timeout_option,
    max_hourly_option,
    place_options,
    yes_option,
)
from lmi_deploy.domain.sagemaker.scaling_settings import counted_units
from lmi_deploy.workflows.scale import PreparedScaling, prepare_scaling
from lmi_deploy.workflows.scale import scale as set_count


@click.command("scale")
@click.argument("name")
@click.argument("count", type=int)
@place_options
@max_hourly_option
@lock_timeout_option
@yes_option
@json_option
def command(
    *,
    name: str,
    count: int,
    where: TargetOptions,
    max_hourly: float | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Set deployment NAME to COUNT instances (a model on a shared endpoint: copies), and wait until so many serve.

    The instances that run go on serving: SageMaker starts or stops only the difference. With autoscaling, COUNT must
    be within its bounds, and its next alarm may change the number again. Without it, the next `lmi up` sets the
    recipe's `endpoint.count` (`endpoint.component.copies`) again.
    """
    context = open_context(as_json=as_json)
    found = find_deployment(name, context.deps, where)
    prepared = prepare_scaling(found, context.deps, count, max_hourly=max_hourly)
    size = counted_units(count, prepared.change.of)
    if prepared.plan.empty:
        context.view.note(f"{prepared.ref.name} has {size} already: nothing to do")
    else:
        context.show_plan(prepared.plan, prepared.estimate, prepared.notices)
        confirm(f"Set {prepared.ref.name} to {size} ({prepared.ref.place})?", yes=yes)
        context.run(set_count(prepared, context.deps))
    context.view.result({**ref_fields(prepared.ref), **_figures(prepared)}, str(count))


def _figures(prepared: PreparedScaling) -> dict[str, object]:
    change, price = prepared.change, prepared.price
    return {
        "instance": " or ".join(change.types),
        "count_before": change.before,
        "count": change.after,
        "hourly_before": prepared.hourly(change.before),
        "hourly": prepared.hourly(change.after),
        "currency": price.currency if price else "",
        "autoscaling": {"min": change.scaling.least, "max": change.scaling.most} if change.scaling else None,
    }
