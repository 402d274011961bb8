"""The stored artifacts of a deployment, and which of them are complete."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from lmi_deploy.domain.sagemaker.exported_stack import is_exported, split_stored
from lmi_deploy.domain.sagemaker.s3_layout import WRITTEN_LAST, artifacts_prefix
from lmi_deploy.ports.cloud import BucketServices


def stored_artifacts(name: str, bucket_services: BucketServices | None) -> dict[str, dict[str, int]]:
    """By id: path and size of each file."""
    prefix, found = artifacts_prefix(name), defaultdict[str, dict[str, int]](dict)
    for stored in bucket_services.store.list(prefix) if bucket_services else ():
        stored_id, path = split_stored(stored.key.removeprefix(prefix))
        found[stored_id][path] = stored.size
    return dict(found)


def own_artifacts(stored: Mapping[str, Mapping[str, int]]) -> tuple[set[str], set[str]]:
    """All of the deployment's artifacts, and the complete ones."""
    own = {one for one in stored if not is_exported(one)}
    return own, {one for one in own if any(path in stored[one] for path in WRITTEN_LAST)}
