"""The data that the recipe's KMS key does not encrypt."""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.catalog.instances import instance
from lmi_deploy.domain.target_spec import SageMakerPlace


def key_notices(place: SageMakerPlace) -> Iterator[str]:
    """Source: SageMaker's API reference, CreateEndpointConfig, KmsKeyId."""
    types = sorted(
        {
            one.instance
            for one in place.placements
            if (machine := instance(one.instance)) and machine.refuses_volume
        }
    )
    if place.kms_key and types:
        yield (
            f"endpoint.kms_key does not encrypt the local disks of {', '.join(types)}, on which the weights lie: the "
            "instance encrypts those itself, with a key of its own"
        )
