"""Engine neuron: layouts as variables, the code in the artifact, requests, what it refuses."""

from __future__ import annotations

import ast
import json

import pytest

from lmi_deploy.catalog.package_files import templates
from lmi_deploy.domain.deployment_artifact import SLOT
from lmi_deploy.domain.deployment_spec import EngineSpec
from lmi_deploy.domain.inference_http import InferenceRequest
from lmi_deploy.domain.recipe_keys import Handler, Pairs
from lmi_deploy.engines.engine import EngineInputs
from lmi_deploy.engines.neuron import engine as neuron
from lmi_deploy.errors import Unresolvable, UsageRefused

QA = neuron.ENGINE.handler(Handler(), "question-answering")


def variables(options: Pairs, *, degree: int = 1) -> dict[str, str]:
    settings = neuron.ENGINE.properties(
        EngineInputs(QA, options, task="question-answering", tensor_parallel_degree=degree, version="")
    )
    spec = EngineSpec(
        name="neuron", tensor_parallel_degree=degree, handler=QA, properties=settings, packages=()
    )
    return dict(neuron.ENGINE.environment(spec))


def test_data_parallel_copies_have_a_core_each() -> None:
    assert variables((("workers", "4"), ("predict_timeout", "60"))) == {
        "LMI_MODEL_PATH": SLOT,
        "LMI_TASK": "question-answering",
        "NEURONCORE_GROUP_SIZES": "1,1,1,1",
        "SAGEMAKER_MODEL_SERVER_WORKERS": "4",
        "SAGEMAKER_PROGRAM": "inference.py",
    }


def test_pipeline_is_one_group_of_its_cores() -> None:
    found = variables((("workers", "1"), ("layout", "pipeline")), degree=16)
    assert (found["NEURONCORE_GROUP_SIZES"], found["SAGEMAKER_MODEL_SERVER_WORKERS"]) == ("16", "1")


@pytest.mark.parametrize(
    ("options", "degree", "what"),
    [
        ((("dtype", "fp16"),), 1, r"options\.dtype: unknown to engine neuron"),
        ((("layout", "tensor"),), 1, r"options\.layout: tensor"),
        ((), 4, "each copy of the model has one core"),
        ((("workers", "none"),), 1, r"options\.workers: none"),
    ],
)
def test_contradictory_options_are_refused(options: Pairs, degree: int, what: str) -> None:
    with pytest.raises(Unresolvable, match=what):
        variables(options, degree=degree)


def test_task_without_code_needs_a_file_of_the_user() -> None:
    with pytest.raises(Unresolvable, match="task text-generation"):
        neuron.ENGINE.handler(Handler(), "text-generation")
    assert neuron.ENGINE.handler(Handler(file="mine.py"), "text-generation") == QA
    with pytest.raises(Unresolvable, match=r"handler\.template"):
        neuron.ENGINE.handler(Handler(template="text-classification"), "text-classification")


def test_question_needs_a_whole_body_and_classification_does_not() -> None:
    with pytest.raises(UsageRefused, match="more than a prompt"):
        neuron.ENGINE.encode(InferenceRequest(prompt="Where?"), QA, "question-answering")
    probe = neuron.ENGINE.probe(QA, "question-answering")
    assert probe is not None
    sent = json.loads(neuron.ENGINE.encode(probe, QA, "question-answering").body)
    assert sent["inputs"].keys() == {"question", "context"}
    sent = json.loads(neuron.ENGINE.encode(InferenceRequest(prompt="x"), QA, "text-classification").body)
    assert sent == {"inputs": "x"}


def test_code_in_the_container_is_python_of_the_image() -> None:
    """The image has Python 3.7."""
    ast.parse((templates() / "neuron" / "inference.py").read_text(), feature_version=(3, 7))
