"""The recipes for SageMaker: every byte that ships, and every resolved choice."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lmi_deploy.catalog.package_files import recipes, templates
from lmi_deploy.domain.dataclass_json import dump, load
from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.gathered_facts import CloudFacts, Facts
from lmi_deploy.domain.image_build import DOCKERFILE
from lmi_deploy.domain.observed_state import CloudInventory, CloudObserved
from lmi_deploy.engines.neuron.engine import INFERENCE_PY
from lmi_deploy.planning.render import render
from lmi_deploy.runtimes.container.build_context import read_context
from lmi_deploy.targets.sagemaker.plan.deploy import diff
from tests.support.factories import resolve
from tests.support.recipe_parsing import parse

HERE = Path(__file__).parent
FACTS = {
    "smollm2-g5": "quickstart",
    "qwen2.5-7b-vllm": "qwen2.5-7b-vllm",
    "llama-3.1-8b-vllm": "llama-3.1-8b-vllm",
    "llama-3.1-8b-tensorrt-llm": "llama-3.1-8b-vllm",
    "llama-3.1-8b-lmi-dist": "llama-3.1-8b-vllm",
    "llama-3-8b-neuronx": "llama-3-8b-neuronx",
    "smollm2-vllm-server": "quickstart",
    "smollm2-sglang": "quickstart",
    "embeddings-tei": "embeddings-tei",
    "llava-1.5-7b": "llava-1.5-7b",
}
FLAN = "published/flan-t5-fastertransformer"
GPT_J = "published/gpt-j-deepspeed"
GPT2 = "published/gpt2-tensorrt"
BERT = "published/bert-inf1"
QA_OVERLAYS = ("batch6", "pipeline", "pipeline-batch6", "inf1-6xlarge", "inf1-6xlarge-pipeline")
CLASSIFICATION_OVERLAYS = tuple(
    f"classification{more}" for more in ("", "-batch6", "-pipeline", "-pipeline-batch6")
)
T5 = "published/t5-triton-tensorrt"
PUBLISHED = [
    (FLAN, "", "flan-t5-xxl"),
    (FLAN, "own-script", "flan-t5-xxl"),
    (FLAN, "ul2", "flan-ul2"),
    (FLAN, "today", "flan-t5-xxl"),
    *(
        (GPT_J, overlay, "gpt-j-6b")
        for overlay in ("", "own-script", "baseline", "p3", "p3-baseline", "today")
    ),
    (GPT2, "", "gpt2-tensorrt"),
    *((BERT, overlay, "bert-inf1") for overlay in ("", "g4dn", *QA_OVERLAYS, *CLASSIFICATION_OVERLAYS)),
    *((T5, overlay, "t5-small-tensorrt") for overlay in ("", "pytorch", "g5", "t5-base", "production")),
]
"""Recipe, overlay and facts."""
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
    return of_recipe(recipes() / f"{name}.yaml", FACTS[name], sets=sets)


def of_recipe(path: Path, facts_name: str, *, overlay: str = "", sets: tuple[str, ...] = ()) -> Spec:
    facts = load(Facts, json.loads((HERE / "facts" / f"{facts_name}.json").read_text()))
    recipe = parse(path.read_bytes(), path.name, overlay=overlay or None, sets=sets)
    own = (path.parent / recipe.handler.file).read_bytes() if recipe.handler.file else None
    build = None
    if recipe.container.build is not None:
        build = read_context(path.parent / recipe.container.build, recipe.container.dockerfile or DOCKERFILE)
    compiled = facts.compiled if recipe.compile else None
    return resolve(recipe, replace(facts, cloud=CLOUD, model_py=own, build=build, compiled=compiled))


@pytest.mark.parametrize(("name", "overlay", "facts"), PUBLISHED)
def test_published_system_matches_golden_files(golden: Golden, name: str, overlay: str, facts: str) -> None:
    folder = recipes() / name
    spec = of_recipe(folder / "recipe.yaml", facts, overlay=overlay)
    compare(golden, f"{name}/{overlay or 'as-published'}", spec)


def test_every_published_system_has_golden_files_of_each_overlay() -> None:
    named = {
        (f"published/{path.parent.name}", overlay)
        for path in recipes().glob("published/*/recipe.yaml")
        for overlay in ("", *overlays(path))
    }
    assert named == {(name, overlay) for name, overlay, _ in PUBLISHED}


def overlays(path: Path) -> list[str]:
    import yaml

    return list(yaml.safe_load(path.read_text()).get("overlays", {}))


@pytest.mark.parametrize("name", FACTS)
def test_sagemaker_artifact_matches_golden_files(golden: Golden, name: str) -> None:
    compare(golden, f"{name}/sagemaker", resolved(name))


def compare(golden: Golden, folder: str, spec: Spec) -> None:
    """The artifact, and what was chosen for SageMaker."""
    files = {file.path: file.content for file in render(spec).files}
    template = spec.engine.handler.template
    if template == "triton/text2text":
        files = dict(named_template(path, content) for path, content in files.items())
    elif template is not None:
        assert files["model.py"] == (templates() / template / "model.py").read_bytes()
        files["model.py"] = f"# the template {template}, byte for byte\n".encode()
    if INFERENCE_PY in files:
        code = files.pop(INFERENCE_PY)
        assert code == (templates() / "neuron" / "inference.py").read_bytes()
    place = {key: value for key, value in dump(spec.place).items() if key in PLACE}
    golden(folder, {**files, "place.json": json.dumps(place, indent=1).encode() + b"\n"})


def first_actions(spec: Spec, artifact: Artifact) -> str:
    """The titles of what a first `up` does, with nothing in the bucket yet."""
    missing = frozenset(each.weights_name for each in spec.weights.additional)
    inventory = CloudInventory(bucket=True, weights=False, missing_additional=missing)
    observed = CloudObserved(ref=spec.ref, record=None, endpoint=None)
    return "".join(f"{action.title}\n" for action in diff(spec, artifact, observed, inventory).actions)


def named_template(path: str, content: bytes) -> tuple[str, bytes]:
    """A file of a model repository, in one folder with the others; of lmi's own code its name."""
    if path.endswith("/model.py"):
        codes = {file.read_bytes(): file.name for file in (templates() / "triton" / "text2text").glob("*.py")}
        content = f"# the template triton/{codes[content]}, byte for byte\n".encode()
    return path.replace("/", "."), content


def test_adapters_and_draft_model_match_golden_files(golden: Golden) -> None:
    """What ships, what is copied into the artifact from the bucket, and every action of the first `up`."""
    path = HERE / "recipes" / "sagemaker" / "adapters-and-draft.yaml"
    spec, by_job = (of_recipe(path, "adapters-and-draft", sets=sets) for sets in ((), ("weights.via=job",)))
    artifact = render(spec)
    files = {file.path: file.content for file in artifact.files}
    copied = [f"{file.path}  {file.size} bytes of {file.weights}/{file.source}" for file in artifact.copied]
    place = {key: value for key, value in dump(spec.place).items() if key in PLACE}
    golden(
        "adapters-and-draft/sagemaker",
        {
            **files,
            "copied.txt": "\n".join([*copied, ""]).encode(),
            "place.json": json.dumps(place, indent=1).encode() + b"\n",
            "actions.txt": first_actions(spec, artifact).encode(),
            "actions-by-job.txt": first_actions(by_job, artifact).encode(),
        },
    )


@pytest.mark.parametrize("version", ["0.38.0", "0.36.0-lmi20", "0.34.0"])
def test_vllm_recipe_on_other_versions_matches_golden_files(golden: Golden, version: str) -> None:
    spec = resolved("qwen2.5-7b-vllm", f"container.version={version}")
    files = {file.path: file.content for file in render(spec).files}
    golden(f"qwen2.5-7b-vllm/{version}", files)


def test_every_sagemaker_recipe_has_golden_files() -> None:
    named = {path.stem for path in recipes().glob("*.yaml") if "target: sagemaker" in path.read_text()}
    assert named == set(FACTS)
