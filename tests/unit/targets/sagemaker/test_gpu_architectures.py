"""An image has kernels only for some GPUs: any other type is refused before it costs money."""

from __future__ import annotations

import pytest

from lmi_deploy.errors import RecipeError
from tests.support.recipe_parsing import parse

GOOD = ""


@pytest.mark.parametrize(
    ("engine", "more", "instance", "words"),
    [
        (
            "vllm",
            "",
            "ml.g4dn.xlarge",
            "NVIDIA T4, of compute capability 7.5, and the vLLM of the image 0.38.0/lmi29",
        ),
        ("vllm", "container: {version: 0.36.0}", "ml.g4dn.xlarge", "0.36.0/lmi27 is built for 8.0 and newer"),
        ("vllm", "container: {version: 0.36.0-lmi26}", "ml.g4dn.xlarge", GOOD),
        ("vllm", "", "ml.g5.xlarge", GOOD),
        (
            "vllm",
            "",
            "ml.p3.2xlarge",
            "which CUDA 13.0 of the image no longer supports, write container.version: 0.35.0",
        ),
        ("vllm", "", "[ml.g5.xlarge, ml.g4dn.xlarge]", "ml.g4dn.xlarge has NVIDIA T4"),
        ("sglang", "", "ml.p3.2xlarge", "which CUDA 13.0 of the image no longer supports, use a newer type"),
        ("accelerate", "", "ml.g4dn.xlarge", GOOD),
        ("tei", "", "ml.p3.2xlarge", "compute capability 7.0, and tei is built for 7.5 and newer"),
        ("tei", "", "ml.g4dn.xlarge", GOOD),
        ("tei", "", "ml.p6-b200.48xlarge", "of the image does not know yet: it needs 12.8"),
        ("tei", "", "ml.c7i.xlarge", GOOD),
        (
            "fastertransformer",
            "container: {version: 0.21.0}",
            "ml.p5.48xlarge",
            "which CUDA 11.7 of the image does not know yet: it needs 11.8",
        ),
        ("fastertransformer", "", "ml.g5.12xlarge", GOOD),
    ],
)
def test_type_that_the_image_has_no_kernels_for_is_refused(
    engine: str, more: str, instance: str, words: str
) -> None:
    degree = "tensor_parallel_degree: 1\n" if engine == "fastertransformer" else ""
    task = "task: text-embedding\n" if engine == "tei" else ""
    text = f"name: q\nmodel_id: a/b\nengine: {engine}\ninstance_type: {instance}\n{degree}{task}{more}\n"
    if not words:
        parse(text, "r.yaml")
        return
    with pytest.raises(RecipeError) as caught:
        parse(text, "r.yaml")
    found = "\n".join(map(str, caught.value.problems))
    assert words in found
    assert engine == "vllm" or "0.35.0" not in found, "the versions of DJLServing are for vllm alone"
