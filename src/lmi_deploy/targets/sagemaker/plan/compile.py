"""The plan of `lmi compile`: the weights into the bucket, then one job."""

from __future__ import annotations

from typing import Final

from lmi_deploy.catalog.instances import has_local_disks
from lmi_deploy.domain.currency import format_price
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.observed_state import CloudInventory
from lmi_deploy.domain.plan import Estimate, Plan
from lmi_deploy.domain.sagemaker.expiry import duration_text
from lmi_deploy.domain.sagemaker.job_actions import RunCompileJob
from lmi_deploy.domain.sagemaker.optimization_job import LONGEST_VALUE, MOST_VARIABLES, OptimizationSettings
from lmi_deploy.domain.sagemaker.transfer_job import COMPILE_JOB, JobSettings
from lmi_deploy.domain.target_spec import CompilePlace
from lmi_deploy.errors import Unresolvable
from lmi_deploy.targets.sagemaker.costs import UNKNOWN_PRICE, Cost
from lmi_deploy.targets.sagemaker.plan.image_actions import image_actions, image_figures
from lmi_deploy.targets.sagemaker.plan.storage_actions import fetch_weights, make_bucket

_NAME_LENGTH: Final = 20
_OF_SAGEMAKER: Final = (
    "unknown: AWS bills the instance that compiles, and SageMaker chooses it when the job starts (prices: "
    "https://aws.amazon.com/sagemaker/pricing/, inference optimization)"
)
"""SageMaker's developer guide, "Create an inference optimization job", "Instance pricing"."""


def compile_plan(spec: Spec, inventory: CloudInventory) -> Plan:
    """`spec` and `inventory` are of the model's own weights. An image that lmi builds is pushed before the job."""
    image = image_actions(spec, inventory) if _place(spec).image == spec.cloud.image else ()
    weights = () if inventory.weights else (fetch_weights(spec),)
    actions = (*make_bucket(spec, inventory), *image, *weights, run_job(spec))
    return Plan(deployment=spec.name, actions=actions)


def run_job(spec: Spec) -> RunCompileJob:
    place = _place(spec)
    return RunCompileJob(
        job=f"{COMPILE_JOB}{place.what.identity[:_NAME_LENGTH]}",
        model_id=spec.model.model_id,
        result=place.what.identity,
        compiler=place.what.title,
        settings=_optimization(spec, place)
        if place.what.compiler == "optimization"
        else _processing(spec, place),
    )


def compile_hourly(spec: Spec, inventory: CloudInventory) -> float | None:
    """Dollars of the job while it runs; None if it is unknown."""
    if _place(spec).what.compiler == "optimization" or inventory.job_price is None:
        return None
    return inventory.job_price.hourly


def compile_estimate(spec: Spec, inventory: CloudInventory) -> Estimate:
    """What the user should know before agreeing to it."""
    place, cloud = _place(spec), spec.cloud
    return Estimate(
        figures=(
            ("cost", _cost(place, inventory)),
            ("time limit", duration_text(place.timeout)),
            ("instance", f"1 x {place.instance}"),
            ("weights", str(spec.weights.size)),
            ("to move", "0" if inventory.weights else str(spec.weights.size)),
            ("region", cloud.region),
            ("bucket", cloud.bucket),
            ("image", place.image),
            *(image_figures(spec, inventory) if place.image == cloud.image else ()),
            ("result", place.what.identity[:12]),
        )
    )


def _cost(place: CompilePlace, inventory: CloudInventory) -> str:
    """While it runs, and at most."""
    if place.what.compiler == "optimization":
        return _OF_SAGEMAKER
    price = inventory.job_price
    if price is None:
        return f"{UNKNOWN_PRICE}, while it runs"
    most = format_price(price.hourly * place.timeout / 3600, price.currency)
    words = Cost(instance=place.instance, least=1, most=1, price=price).words
    return f"{words}, while it runs; at most {most}"


def _processing(spec: Spec, place: CompilePlace) -> JobSettings:
    return JobSettings(
        role=place.role,
        image=place.image,
        instance=place.instance,
        count=1,
        volume_gb=place.volume_gb,
        command=(),
        environment=(),
        inputs=(),
        timeout=place.timeout,
        kms_key=spec.cloud.kms_key,
        vpc=spec.cloud.vpc,
        local_disks=has_local_disks(place.instance),
    )


def _optimization(spec: Spec, place: CompilePlace) -> OptimizationSettings:
    """DJLServing reads its options from variables, too: OPTION_DTYPE is `option.dtype`."""
    options = tuple((f"OPTION_{name.upper()}", value) for name, value in place.what.options)
    long = next((name for name, value in options if len(value) > LONGEST_VALUE), "")
    if long or len(options) > MOST_VARIABLES:
        what = f"{long} has more than {LONGEST_VALUE} characters" if long else f"{len(options)} options"
        raise Unresolvable(
            f"compile: {what}; an optimization job takes {MOST_VARIABLES} variables of {LONGEST_VALUE} characters",
            hint="use fewer or shorter options, or write your own compile.script",
        )
    return OptimizationSettings(
        role=place.role,
        image=place.image,
        instance=place.instance,
        technique="ModelShardingConfig" if spec.engine.name == "lmi-dist" else "ModelCompilationConfig",
        environment=options,
        timeout=place.timeout,
        kms_key=spec.cloud.kms_key,
        vpc=spec.cloud.vpc,
    )


def _place(spec: Spec) -> CompilePlace:
    assert spec.cloud.compile is not None, "only a recipe with `compile` is compiled"
    return spec.cloud.compile
