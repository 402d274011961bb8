"""Cores of a pipeline on Inferentia 1: Neuron's formula within the instance, and what lmi says about it."""

from __future__ import annotations

import pytest

from lmi_deploy.errors import Unresolvable
from lmi_deploy.sizing.neuron_pipeline import neuron_degree, pipeline_cores, pipeline_notice
from tests.support.recipe_parsing import parse

BERT = {
    "architectures": ["BertForQuestionAnswering"],
    "model_type": "bert",
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "vocab_size": 30522,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
}


def text(more: str, *, instance: str = "ml.inf1.xlarge") -> str:
    return f"name: m\nmodel_id: org/m\nengine: neuron\ntask: question-answering\ninstance_type: {instance}\n{more}"


@pytest.mark.parametrize(
    ("parameters", "available", "cores", "formula"),
    [(110_000_000, 16, 16, 24), (110_000_000, 64, 24, 24), (9_000_000, 4, 1, 0), (60_000_000, 16, 12, 12)],
)
def test_formula_is_limited_to_the_cores_of_the_instance(
    parameters: int, available: int, cores: int, formula: int
) -> None:
    found = pipeline_cores(parameters, available)
    assert (found.cores, found.formula) == (cores, formula)


def test_copy_of_the_model_has_one_core_in_layout_data() -> None:
    recipe = parse(text(""), "m.yaml")
    assert neuron_degree(recipe, BERT) == 1
    assert pipeline_notice(recipe, BERT) == ""


@pytest.mark.parametrize(("instance", "cores"), [("ml.inf1.xlarge", 4), ("ml.inf1.6xlarge", 16)])
def test_pipeline_takes_the_cores_of_the_instance_and_says_so(instance: str, cores: int) -> None:
    recipe = parse(text("options: {layout: pipeline}\n", instance=instance), "m.yaml")
    assert neuron_degree(recipe, BERT) == cores
    notice = pipeline_notice(recipe, BERT)
    assert "is 20 NeuronCores" in notice
    assert f"--neuroncore-pipeline-cores {cores}" in notice


def test_number_of_cores_must_divide_those_of_the_instance() -> None:
    more = "tensor_parallel_degree: 3\noptions: {layout: pipeline}\n"
    with pytest.raises(Unresolvable, match="3 does not divide the 4 NeuronCores"):
        neuron_degree(parse(text(more), "m.yaml"), BERT)


def test_unknown_architecture_needs_a_number() -> None:
    with pytest.raises(Unresolvable, match="auto needs the number of weights"):
        neuron_degree(parse(text("options: {layout: pipeline}\n"), "m.yaml"), {})
