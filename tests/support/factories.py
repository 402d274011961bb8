"""Nouns for tests of the pure rooms: a small whole one of each, and changes on top."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lmi_deploy.domain.facts import Facts, FileEntry, Machine, ModelListing
from lmi_deploy.domain.recipe import Recipe
from lmi_deploy.domain.record import Generation
from lmi_deploy.domain.spec import Spec
from lmi_deploy.planning import resolve as planning
from lmi_deploy.recipe.parse import parse
from lmi_deploy.targets.local.resolve import place_of as local_place
from lmi_deploy.targets.sagemaker.resolve import place_of as sagemaker_place


def entry(path: str, size: int = 10) -> FileEntry:
    return FileEntry(path=path, size=size, oid="0" * 64, kind="sha256")


def listing(*paths: str) -> ModelListing:
    return ModelListing(model_id="org/m", commit="c" * 40, files=tuple(entry(path) for path in paths))


def recipe(extra: str = "", *, engine: str = "accelerate") -> Recipe:
    return parse(
        f"name: m\nmodel_id: org/m\nengine: {engine}\nendpoint: {{target: local}}\n{extra}", "m.yaml"
    )


def facts(config: dict[str, Any] | None = None, **changes: Any) -> Facts:
    plain = Facts(
        listing=listing("config.json", "model.safetensors"),
        config={"architectures": ["LlamaForCausalLM"]} if config is None else config,
        tensors=None,
        machine=Machine(memory=8_000_000_000, cores=2),
        port=8080,
    )
    return replace(plain, **changes)


def generation(server: str) -> Generation:
    return Generation(
        server=server,
        spec="s",
        artifact="a",
        runtime="embedded",
        host="127.0.0.1",
        port=8080,
        summary={"model": "org/m"},
        since="2026-11-21T10:00:00+00:00",
    )


def resolve(recipe: Recipe, facts: Facts) -> Spec:
    """As a workflow does it: with the part of the recipe's own target."""
    places: dict[str, planning.PlaceOf] = {"local": local_place, "sagemaker": sagemaker_place}
    return planning.resolve(recipe, facts, places[recipe.endpoint.target])
