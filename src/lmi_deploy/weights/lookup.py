"""Which of a bucket's weights somebody means: by name, what only it begins with, the model's id, or the address."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from lmi_deploy.domain.weights import Manifest, weights_prefix
from lmi_deploy.errors import NotFound, UsageRefused


def find_weights(there: Sequence[Manifest], asked: str, bucket: str) -> Manifest:
    """NotFound says what it may have been; UsageRefused names all that it may be."""
    name = asked.removeprefix(f"s3://{bucket}/{weights_prefix('').rstrip('/')}/").rstrip("/")
    exact = [manifest for manifest in there if manifest.name == name]
    near = exact or [one for one in there if one.name.startswith(name) or one.model_id == name]
    if len(near) == 1 and name:
        return near[0]
    if near:
        names = ", ".join(manifest.name for manifest in near[:5])
        raise UsageRefused(f"{asked}: {len(near)} weights begin so: {names}", hint="name one of them")
    raise no_such(asked, bucket, meant=_meant(there, name))


def no_such(asked: str, bucket: str, *, meant: str = "") -> NotFound:
    ls = f"`lmi weights ls --bucket {bucket}` names those there are"
    hint = f"did you mean {meant}? {ls}" if meant else ls
    return NotFound(f"{asked}: no such weights in {bucket}", hint=hint)


def _meant(there: Sequence[Manifest], name: str) -> str:
    """The model whose name or id begins most like what was typed; empty where none does."""
    begins = {text[: len(name)]: text for one in there for text in (one.name.split("/")[0], one.model_id)}
    return next((begins[near] for near in difflib.get_close_matches(name, begins, n=1, cutoff=0.8)), "")
