"""The recipes for SageMaker: every byte that ships, and every resolved choice."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lmi_deploy.catalog.package_files import recipes, templates
from lmi_deploy.domain.dataclass_json import dump, load
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.gathered_facts import CloudFacts, Facts
from lmi_deploy.planning.render import render
from tests.support.factories import resolve
from tests.support.recipe_parsing import parse

HERE = Path(__file__).parent
FACTS = {
    "smollm2-g5": "quickstart",
    "qwen2.5-7b-vllm": "qwen2.5-7b-vllm",
    "llama-3.1-8b-vllm": "llama-3.1-8b-vllm",
}
PLACE = ("image", "placements", "environment", "delivery", "model_download", "startup_timeout", "ttl")
CLOUD = CloudFacts(
    account="111122223333",
    partition="aws",
    region="us-east-1",
    principal="arn:aws:iam::111122223333:user/someone",
    bucket="lmi-111122223333-us-east-1",
)
Golden = Callable[[str, dict[str, bytes]], None]


def resolved(name: str, *sets: str) -> Spec:
    path = recipes() / f"{name}.yaml"
    facts = load(Facts, json.loads((HERE / "facts" / f"{FACTS[name]}.json").read_text()))
    return resolve(parse(path.read_bytes(), path.name, sets=sets), replace(facts, cloud=CLOUD))


@pytest.mark.parametrize("name", FACTS)
def test_sagemaker_artifact_matches_golden_files(golden: Golden, name: str) -> None:
    spec = resolved(name)
    files = {file.path: file.content for file in render(spec).files}
    template = spec.engine.handler.template
    if template is not None:
        assert files["model.py"] == (templates() / template / "model.py").read_bytes()
        files["model.py"] = f"# the template {template}, byte for byte\n".encode()
    place = {key: value for key, value in dump(spec.place).items() if key in PLACE}
    golden(f"{name}/sagemaker", {**files, "place.json": json.dumps(place, indent=1).encode() + b"\n"})


@pytest.mark.parametrize("version", ["0.38.0", "0.36.0-lmi20", "0.34.0"])
def test_vllm_recipe_on_other_versions_matches_golden_files(golden: Golden, version: str) -> None:
    spec = resolved("qwen2.5-7b-vllm", f"container.version={version}")
    files = {file.path: file.content for file in render(spec).files}
    golden(f"qwen2.5-7b-vllm/{version}", files)


def test_every_sagemaker_recipe_has_golden_files() -> None:
    named = {path.stem for path in recipes().glob("*.yaml") if "target: sagemaker" in path.read_text()}
    assert named == set(FACTS)
