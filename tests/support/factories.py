"""Domain objects for tests of pure code: a small complete one of each, with changes applied."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.gathered_facts import Facts, FileEntry, Machine, ModelListing
from lmi_deploy.domain.inference_http import ProbeSpec
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.record import Generation
from lmi_deploy.domain.sagemaker.resource_settings import Placement
from lmi_deploy.domain.serving_record import LocalServing, SageMakerServing, ServingRecord
from lmi_deploy.planning import resolve as planning
from lmi_deploy.targets.local.resolve import place_of as local_place
from lmi_deploy.targets.sagemaker.resolve import place_of as sagemaker_place
from tests.support.recipe_parsing import parse


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


LOCAL = LocalServing(
    environment="e", runtime="embedded", image="", address="127.0.0.1:8080", wait_timeout=600
)
SAGEMAKER = SageMakerServing(
    model="m-model",
    region="us-east-1",
    image="djl",
    placements=(Placement(instance="ml.g5.xlarge", volume_gb=0, host_ami=""),),
    count=1,
    delivery="s3",
    role="arn:aws:iam::111122223333:role/lmi-endpoint",
    model_download=600,
    container_startup=600,
    wait_timeout=3000,
    kms_key="",
    network_isolation=False,
    vpc=None,
    scaling=None,
)
"""Of the fields of a record about its target."""


def serving(place: LocalServing | SageMakerServing, **changes: Any) -> ServingRecord:
    plain = ServingRecord(
        model="org/m",
        commit="c" * 40,
        engine="accelerate",
        task="text-generation",
        handler="model.py",
        template="text-generation",
        tensor_parallel_degree=1,
        weights="w" * 8,
        artifact="a" * 10,
        place=place,
        probe=ProbeSpec(prompt="", body="{}", content_type="application/json", expect=""),
        environment=(),
        properties=(),
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
        serving=serving(LOCAL),
        since="2026-11-21T10:00:00+00:00",
    )


def resolve(recipe: Recipe, facts: Facts) -> Spec:
    """As a workflow does it: with the part of the recipe's own target."""
    places: dict[str, planning.PlaceOf] = {"local": local_place, "sagemaker": sagemaker_place}
    return planning.resolve(recipe, facts, places[recipe.endpoint.target])
