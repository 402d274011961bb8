"""Records of schema 1: what a generation serves was a table of words, for people and for lmi alike."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from lmi_deploy.domain.dataclass_json import load
from lmi_deploy.domain.environment_digests import masked
from lmi_deploy.domain.inference_http import ProbeSpec
from lmi_deploy.domain.recipe_endpoint_keys import Vpc
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.record import DeploymentRef, Generation, Intent, Record
from lmi_deploy.domain.sagemaker.resource_settings import Placement
from lmi_deploy.domain.sagemaker.scaling_settings import Scaling
from lmi_deploy.domain.serving_record import LocalServing, SageMakerServing, ServingRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class _Generation:
    server: str
    spec: str
    artifact: str
    runtime: str
    host: str
    port: int
    summary: dict[str, Any]
    since: str
    took: int = 0
    instance: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    ref: DeploymentRef
    generations: tuple[_Generation, ...] = ()
    intents: tuple[Intent, ...] = ()
    coming: _Generation | None = None


def read_schema_1(found: Mapping[str, Any]) -> Record:
    """ValueError if it has another form."""
    old = load(_Record, found)
    return Record(
        ref=old.ref,
        generations=tuple(_generation(old.ref, generation) for generation in old.generations),
        intents=old.intents,
        coming=_generation(old.ref, old.coming) if old.coming else None,
    )


def _generation(ref: DeploymentRef, old: _Generation) -> Generation:
    same = {field.name: getattr(old, field.name) for field in fields(old) if field.name != "summary"}
    words = _Words({key: str(value) for key, value in old.summary.items()})
    return Generation(**same, serving=_serving(words, sagemaker=ref.target == "sagemaker"))


class _Words(dict[str, str]):
    """A summary, of which each field is taken once; an older lmi may have left it out."""

    def text(self, key: str, default: str = "") -> str:
        return self.pop(key, default)

    def number(self, key: str, default: int = 0) -> int:
        return int(self.pop(key, "") or default)

    def items_of(self, key: str) -> tuple[str, ...]:
        return tuple(filter(None, self.pop(key, "").split(", ")))

    def by_instance(self, key: str) -> dict[str, str]:
        """`ml.m5.xlarge 77 GB, ml.c5.xlarge 77 GB`"""
        parts = (item.partition(" ") for item in self.items_of(key))
        return {instance: value for instance, _, value in parts}

    def named(self, prefix: str) -> Pairs:
        names = [key for key in self if key.startswith(prefix)]
        return tuple((name.removeprefix(prefix), self.pop(name)) for name in names)


def _serving(words: _Words, *, sagemaker: bool) -> ServingRecord:
    return ServingRecord(
        model=words.text("model"),
        commit=words.text("commit"),
        engine=words.text("engine"),
        task=words.text("task"),
        handler=words.text("handler"),
        template=words.text("template"),
        tensor_parallel_degree=words.number("tensor_parallel_degree"),
        weights=words.text("weights"),
        weights_name=words.text("weights_name"),
        artifact=words.text("artifact"),
        place=_sagemaker(words) if sagemaker else _local(words),
        probe=_probe(words),
        environment=tuple((name, masked(value)) for name, value in words.named("environment.")),
        tags=words.named("tag."),
        properties=tuple(words.items()),
    )


def _local(words: _Words) -> LocalServing:
    return LocalServing(
        environment=words.text("environment"),
        runtime=words.text("runtime"),
        image=words.text("image"),
        address=words.text("address"),
        wait_timeout=words.number("container_startup"),
    )


def _sagemaker(words: _Words) -> SageMakerServing:
    words.text("runtime")
    volumes, amis = words.by_instance("volume"), words.by_instance("host_ami")
    subnets, groups = words.items_of("subnets"), words.items_of("security_groups")
    return SageMakerServing(
        model=words.text("sagemaker_model"),
        region=words.text("region"),
        image=words.text("image"),
        placements=tuple(
            Placement(
                instance=instance,
                volume_gb=int(volumes.get(instance, "0").removesuffix(" GB")),
                host_ami=amis.get(instance, ""),
            )
            for instance in words.items_of("instance_type")
        ),
        count=words.number("count", 1),
        delivery=words.text("delivery"),
        role=words.text("role"),
        model_download=words.number("model_download"),
        container_startup=words.number("container_startup"),
        wait_timeout=words.number("patience"),
        kms_key=words.text("kms_key"),
        network_isolation=words.text("network_isolation") == "true",
        vpc=Vpc(subnets=subnets, security_groups=groups) if subnets or groups else None,
        scaling=_scaling(words.text("scaling")),
    )


def _scaling(text: str) -> Scaling | None:
    """`1 to 4 instances, 100 invocations a minute each`"""
    found = re.match(r"(\d+) to (\d+) instances, (\d+) invocations", text)
    if found is None:
        return None
    least, most, invocations = map(int, found.groups())
    return Scaling(least=least, most=most, invocations=invocations)


def _probe(words: _Words) -> ProbeSpec | None:
    probe = ProbeSpec(
        body=words.text("probe"),
        prompt=words.text("probe_prompt"),
        content_type=words.text("probe_content_type", "application/json"),
        expect=words.text("probe_expect"),
    )
    return probe if probe.body else None
