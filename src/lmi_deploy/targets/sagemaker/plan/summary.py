"""The summary of a deployment on SageMaker: shown before the user agrees, and stored in its record."""

from __future__ import annotations

from typing import Final

from lmi_deploy.domain.artifact import Artifact
from lmi_deploy.domain.environment_digests import environment_summary
from lmi_deploy.domain.observed import CloudInventory, CloudObserved
from lmi_deploy.domain.plan import Plan
from lmi_deploy.domain.recipe import Pairs
from lmi_deploy.domain.record import Generation
from lmi_deploy.domain.sagemaker.actions import AwaitService, CreateEndpoint, UpdateEndpoint
from lmi_deploy.domain.sagemaker.s3_layout import artifact_id, weights_of
from lmi_deploy.domain.sagemaker.scaling_summary import SCALING, scaling_words
from lmi_deploy.domain.sagemaker.tags import spec_digest, tags_summary
from lmi_deploy.domain.spec import Spec
from lmi_deploy.domain.target_spec import Placement, SageMakerPlace
from lmi_deploy.planning.changes import model_summary, probe_summary, properties_summary
from lmi_deploy.targets.sagemaker.costs import UNKNOWN_PRICE, cost_of, job_cost
from lmi_deploy.targets.sagemaker.desired_state import desired_state, wait_timeout

MODEL: Final = "sagemaker_model"
WAIT_TIMEOUT: Final = "patience"


def summary(spec: Spec, artifact: Artifact) -> dict[str, str]:
    """The recipe's fields of a generation: what `status`, `invoke`, `wait` and `rollback` need."""
    place = spec.cloud
    return {
        **model_summary(spec),
        "weights_name": weights_of(spec),
        "artifact": artifact.digest[:10],
        MODEL: desired_state(spec, artifact).model,
        "runtime": "sagemaker",
        **_place(place),
        WAIT_TIMEOUT: str(wait_timeout(spec)),
        **probe_summary(spec),
        **environment_summary(place.environment),
        **tags_summary(place.tags),
        **properties_summary(spec),
    }


def _place(place: SageMakerPlace) -> dict[str, str]:
    disks = ", ".join(f"{p.instance} {p.volume_gb} GB" for p in place.placements if p.volume_gb)
    amis = ", ".join(f"{p.instance} {p.host_ami}" for p in place.placements if p.host_ami)
    response = {
        "region": place.region,
        "image": place.image,
        "instance_type": ", ".join(placement.instance for placement in place.placements),
        "count": str(place.count),
        "delivery": place.delivery,
        "role": place.role,
        "model_download": str(place.model_download),
        "container_startup": str(place.startup_timeout),
        "volume": disks,
        "host_ami": amis,
        "kms_key": place.kms_key,
        "network_isolation": "true" if place.network_isolation else "",
        "subnets": ", ".join(place.vpc.subnets) if place.vpc else "",
        "security_groups": ", ".join(place.vpc.security_groups) if place.vpc else "",
        SCALING: scaling_words(place.scaling) if place.scaling else "",
    }
    return {key: value for key, value in response.items() if value}


def generation(
    spec: Spec, artifact: Artifact, plan: Plan, observed: CloudObserved, *, since: str
) -> Generation:
    """The generation for the record."""
    desired = desired_state(spec, artifact)
    config = desired.endpoint_config(_serving(plan, observed)) or desired.configs[0]
    return Generation(
        server=config.name,
        spec=spec_digest(spec),
        artifact=artifact_id(spec, artifact),
        runtime="sagemaker",
        host=spec.cloud.region,
        port=0,
        summary=dict(summary(spec, artifact)),
        since=since,
        instance=config.placement.instance,
    )


def _serving(plan: Plan, observed: CloudObserved) -> str:
    """The config that serves once the plan is carried out."""
    chosen = (a.config for a in plan.actions if isinstance(a, (CreateEndpoint, UpdateEndpoint, AwaitService)))
    note = observed.endpoint.config if observed.endpoint else ""
    return next(chosen, note)


def _costs(place: SageMakerPlace, placement: Placement, inventory: CloudInventory) -> Pairs:
    """Of the instance type of this plan, and of each other one that the recipe allows."""
    if not inventory.priced:
        return ()
    cost = cost_of(place, placement, inventory.prices)
    others = [each for each in place.placements if each != placement]
    lines = (("cost", cost.words if cost else UNKNOWN_PRICE),)
    if not others:
        return lines
    costs = ((each.instance, cost_of(place, each, inventory.prices)) for each in others)
    words = (one.brief if one else f"{instance}: {UNKNOWN_PRICE}" for instance, one in costs)
    return (*lines, ("alternatives", ", or ".join(words)))


def figures(spec: Spec, placement: Placement, inventory: CloudInventory) -> Pairs:
    """What the user should know before agreeing."""
    place = spec.cloud
    count = f"{place.scaling.least} to {place.scaling.most}" if place.scaling else str(place.count)
    return (
        *_costs(place, placement, inventory),
        *_job_cost(place, inventory),
        ("instance", f"{count} x {placement.instance}"),
        ("weights", str(spec.weights.size)),
        ("to move", str(_bytes_to_move(spec, inventory))),
        ("delivery", place.delivery),
        ("region", place.region),
        ("bucket", place.bucket),
        ("image", place.image),
    )


def _bytes_to_move(spec: Spec, inventory: CloudInventory) -> int:
    """Bytes: all of the weights, or those files of complete ones that were lost since."""
    if inventory.weights:
        return 0
    lost = {issue.path for issue in inventory.weights_flaws}
    return sum(file.size for file in spec.weights.files if not lost or file.path in lost)


def _job_cost(place: SageMakerPlace, inventory: CloudInventory) -> Pairs:
    """Of the transfer job for the weights, unless they exist already."""
    if place.job is None or inventory.weights:
        return ()
    cost = job_cost(place, inventory)
    unknown = f"{place.job.count} x {place.job.instance}, {UNKNOWN_PRICE}"
    return (("transfer job", f"{cost.words if cost else unknown}, while it runs"),)
