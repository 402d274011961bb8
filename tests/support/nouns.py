"""Nouns for tests of the pure rooms: a small whole one of each, and changes on top."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lmi_deploy.core.facts import Facts, FileEntry, Machine, ModelListing
from lmi_deploy.core.place import Placement, SageMakerPlace
from lmi_deploy.core.recipe import Recipe
from lmi_deploy.core.spec import Spec
from lmi_deploy.core.weights import Travel
from lmi_deploy.decide.parse import parse
from lmi_deploy.decide.resolve import resolve


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


def cloud_spec(**changes: Any) -> Spec:
    """A spec whose place is SageMaker; `changes` are of its place."""
    place = SageMakerPlace(
        account="123456789012",
        partition="aws",
        region="us-east-1",
        bucket="lmi-123456789012-us-east-1-an",
        role="arn:aws:iam::123456789012:role/lmi-endpoint",
        image="763104351884.dkr.ecr.us-east-1.amazonaws.com/djl-inference:0.36.0-lmi27.0.0-cu130",
        placements=(
            Placement(instance="ml.g5.xlarge", volume_gb=0, host_ami="ami-a"),
            Placement(instance="ml.g6.xlarge", volume_gb=30, host_ami=""),
        ),
        count=1,
        environment=(("SERVING_FAIL_FAST", "true"),),
        delivery="s3",
        model_download=600,
        startup_timeout=600,
        network_isolation=False,
        vpc=None,
        kms_key="",
        scaling=None,
        tags=(("team", "nlp"),),
        ttl=0,
        travel=Travel(),
        token_secret="",
    )
    return replace(resolve(recipe(), facts()), place=replace(place, **changes))
