"""The instance types of a recipe as instance pools of one production variant.

A variant has one volume size and one host image for all its pools. Sources: SageMaker developer guide, "Deploy to
multiple instance types with instance pools"; API reference, ProductionVariant (read in November 2026).
"""

from __future__ import annotations

from collections.abc import Sequence

from lmi_deploy.catalog.instances import has_local_disks
from lmi_deploy.domain.recipe_instance_keys import InstancePools
from lmi_deploy.domain.sagemaker.resource_settings import Placement, PoolSettings
from lmi_deploy.errors import Unresolvable

_TRIED_IN_ORDER = "remove endpoint.instance_pools: lmi then tries the types one after the other"


def pooled(placements: Sequence[Placement], pools: InstancePools) -> Placement:
    """One placement for all. Unresolvable if they need volumes or host images of their own."""
    hosts = {one.host_ami: one.instance for one in placements}
    if len(hosts) > 1:
        each = ", ".join(f"{name} {host or 'the default'}" for host, name in hosts.items())
        raise Unresolvable(
            f"endpoint.instance_pools: a variant has one host image for all its pools, but these types need: {each}",
            hint=f"set container.host_ami, name types of one kind, or {_TRIED_IN_ORDER}",
        )
    size = max(one.volume_gb for one in placements)
    disks = next((one.instance for one in placements if has_local_disks(one.instance)), "")
    if size and disks:
        needs = next(one.instance for one in placements if one.volume_gb)
        raise Unresolvable(
            f"endpoint.instance_pools: {needs} needs a volume of {size} GB, and SageMaker accepts no volume size for "
            f"{disks}, which has local disks; a variant has one size for all its pools",
            hint=f"name only types with local disks, or none of them, or {_TRIED_IN_ORDER}",
        )
    first, *others = placements
    return Placement(
        instance=first.instance,
        volume_gb=size,
        host_ami=first.host_ami,
        instance_pools=PoolSettings(
            others=tuple(one.instance for one in others), provision_timeout=pools.provision_timeout
        ),
    )
