"""The recipe's group `endpoint.candidate`: a second version that is tried beside the one that serves."""

# Without `from __future__ import annotations`: see recipe_keys.py.
from dataclasses import dataclass
from typing import Annotated

from lmi_deploy.domain.recipe_key_types import Doc, Integer, OneLine, PairsOf


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    recipe: Annotated[
        str | None,
        OneLine("path, relative to the recipe"),
        Doc("Another recipe, instead of this one; its group `endpoint` does not count.", "other.yaml"),
    ] = None
    overlay: Annotated[
        str | None, OneLine("name of an overlay"), Doc("An overlay of that recipe.", "fp8")
    ] = None
    set: Annotated[
        tuple[tuple[str, str], ...],
        PairsOf("text"),
        Doc("Keys of that recipe with other values, as of `--set`.", "{options.dtype: fp16}"),
    ] = ()
    traffic_percent: Annotated[
        int | None,
        Integer(0, 100),
        Doc(
            "Percentage of the requests that the candidate answers. It gets them once it has answered the probe; a "
            "change replaces no instance.",
            "10",
        ),
    ] = None
    shadow_percent: Annotated[
        int | None,
        Integer(1, 100),
        Doc(
            "Instead of `traffic_percent`: percentage of the requests of which the candidate gets a copy. Its answers "
            "are never returned (SageMaker's shadow variant).",
            "50",
        ),
    ] = None
    count: Annotated[int, Integer(1, 10_000), Doc("Number of its instances.", "2")] = 1
