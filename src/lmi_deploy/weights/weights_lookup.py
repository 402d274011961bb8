"""Find weights in a bucket by name, by a unique prefix of it, by the model's id, or by the address."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from lmi_deploy.domain.weights import Manifest, weights_prefix
from lmi_deploy.errors import NotFound, UsageRefused


def find_weights(manifests: Sequence[Manifest], requested: str, bucket: str) -> Manifest:
    """NotFound suggests a name; UsageRefused lists all matches."""
    name = requested.removeprefix(f"s3://{bucket}/{weights_prefix('').rstrip('/')}/").rstrip("/")
    exact = [manifest for manifest in manifests if manifest.name == name]
    local = exact or [one for one in manifests if one.name.startswith(name) or one.model_id == name]
    if len(local) == 1 and name:
        return local[0]
    if local:
        names = ", ".join(manifest.name for manifest in local[:5])
        raise UsageRefused(
            f"{requested} is ambiguous: {len(local)} weights match: {names}", hint="name one of them"
        )
    raise no_such(requested, bucket, suggestion=_suggestion(manifests, name))


def no_such(requested: str, bucket: str, *, suggestion: str = "") -> NotFound:
    ls = f"list them with `lmi weights ls --bucket {bucket}`"
    hint = f"did you mean {suggestion}? {ls}" if suggestion else ls
    return NotFound(f"{requested}: no such weights in {bucket}", hint=hint)


def _suggestion(manifests: Sequence[Manifest], name: str) -> str:
    """The model whose name or id is most similar to the input; empty if none is."""
    begins = {text[: len(name)]: text for one in manifests for text in (one.name.split("/")[0], one.model_id)}
    return next((begins[local] for local in difflib.get_close_matches(name, begins, n=1, cutoff=0.8)), "")
