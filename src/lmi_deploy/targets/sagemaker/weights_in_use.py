"""Weights that live endpoints serve from, whether or not a record names them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress

from lmi_deploy.domain.djl_serving import SERVING_PROPERTIES
from lmi_deploy.domain.java_properties import parse_properties
from lmi_deploy.domain.s3_address import read_prefix
from lmi_deploy.domain.sagemaker.resource_settings import (
    SERVING_KINDS,
    TAG,
    TAG_BUCKET,
    TAG_DRAFT,
    TAG_IN_PLACE,
    TAG_WEIGHTS,
    ModelSettings,
    Resource,
)
from lmi_deploy.domain.weights import weights_prefix
from lmi_deploy.ports.hosting import Hosting
from lmi_deploy.ports.object_store import ObjectStore
from lmi_deploy.ports.resource_tags import ResourceTags


def served_weights(
    store: ObjectStore, resource_tags: ResourceTags, hosting: Hosting, *, recorded: Container[str]
) -> dict[str, str]:
    """Names of weights in this bucket to the deployment whose endpoint, found by its tag, serves from them.

    They are read from the tags of the deployment's resources, including its models: those of an earlier generation
    may be used again. If neither tags nor a record name weights (`recorded`: deployments whose record names weights),
    its models are described.
    """
    groups: defaultdict[str, list[Resource]] = defaultdict(list)
    for resource in resource_tags.all():
        groups[resource.tag(TAG)].append(resource)
    found: dict[str, str] = {}
    for deployment, resources in sorted(groups.items()):
        endpoints = [r for r in resources if r.kind in SERVING_KINDS]
        addresses = (read_prefix(r.tag(TAG_IN_PLACE)) for r in resources if r.tag(TAG_IN_PLACE))
        in_place = {at.weights for at in addresses if at.bucket == store.bucket} - {""}
        found |= dict.fromkeys(in_place if endpoints else (), deployment)
        if not endpoints or not _may_serve_bucket(resources, store.bucket):
            continue
        names = {r.tag(tag) for r in resources for tag in (TAG_WEIGHTS, TAG_DRAFT)} - {""}
        if not names and deployment not in recorded:
            names = {name for model in _models(resources, hosting) for name in _named(model, store)}
        found |= dict.fromkeys(names, deployment)
    return found


def _may_serve_bucket(resources: Sequence[Resource], bucket: str) -> bool:
    return {r.tag(TAG_BUCKET) for r in resources} <= {"", bucket}


def _models(resources: Sequence[Resource], hosting: Hosting) -> Iterator[ModelSettings]:
    """Those that carry the tag, and those that the endpoint's configs name."""
    names = {resource.name for resource in resources if resource.kind == "model"}
    for resource in resources:
        endpoint = hosting.endpoint(resource.name) if resource.kind == "endpoint" else None
        for config in {endpoint.config, endpoint.pending} - {""} if endpoint else ():
            observed = hosting.endpoint_config(config)
            names |= {*observed.models} if observed else set()
    for name in sorted(names):
        if (model := hosting.model(name)) is not None:
            yield model.settings


def _named(settings: ModelSettings, store: ObjectStore) -> set[str]:
    """Weights in a model's data sources, in its environment, or in the artifact that it starts from."""
    path = f"s3://{store.bucket}/"
    texts = [
        settings.artifact,
        *(mount.uri for mount in settings.mounts),
        *(value for _, value in settings.environment),
    ]
    if settings.artifact.startswith(path):
        properties = store.get(f"{settings.artifact.removeprefix(path)}{SERVING_PROPERTIES}")
        with suppress(ValueError):  # one that cannot be read starts no server
            texts.extend(parse_properties(properties[0]).values() if properties else ())
    prefix = re.escape(path + weights_prefix("").rstrip("/"))
    return {name for text in texts for name in re.findall(rf"{prefix}/([^/\s]+/[^/\s]+)", text)}
