"""Tags of an endpoint: those of the recipe are set; of the existing ones, only those that lmi set are removed.

A tag does not say who set it. The record does: by the current generation and by the actions started since.
"""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.domain.observed_state import CloudObserved
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.record import Record
from lmi_deploy.domain.sagemaker.actions import CreateEndpoint, TagEndpoint, UntagEndpoint
from lmi_deploy.domain.sagemaker.component_actions import CreateInferenceComponent
from lmi_deploy.domain.sagemaker.resource_settings import SERVING_KINDS, TAG_DRAFT, TAG_IN_PLACE, TAG_WEIGHTS
from lmi_deploy.domain.sagemaker.tags import OWN


def tagging(observed: CloudObserved, desired: Pairs) -> Iterator[TagEndpoint | UntagEndpoint]:
    """The actions that change the endpoint's tags to these; lmi's tags of other names, and those of others, stay
    unchanged.
    """
    found = next((r for r in observed.resources if r.kind in SERVING_KINDS), None)
    existing = dict(found.tags) if found else {}
    differing = tuple((key, value) for key, value in desired if existing.get(key) != value)
    if differing:
        yield TagEndpoint(endpoint=observed.ref.name, tags=differing)
    # A tag whose value another tool changed no longer belongs to lmi.
    put = {key for key, value in _put(observed.record) if existing.get(key) == value}
    put = put - OWN | {TAG_WEIGHTS, TAG_DRAFT, TAG_IN_PLACE} & existing.keys()
    if left := put - dict(desired).keys():
        yield UntagEndpoint(endpoint=observed.ref.name, names=tuple(sorted(left)))


def _put(record: Record | None) -> Iterator[tuple[str, str]]:
    """What lmi set for the current generation, and for actions that were started since and did not finish."""
    if record is None:
        return
    if record.current:
        yield from record.current.serving.tags
    for intent in record.started(CreateEndpoint, CreateInferenceComponent, TagEndpoint):
        yield from ((str(key), str(value)) for key, value in intent.names.get("tags", ()))
