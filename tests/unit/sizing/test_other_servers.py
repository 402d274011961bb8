"""The fit of servers that are not DJLServing's: SGLang, TEI, vLLM's own server, compiled graphs on Inferentia 1."""

from __future__ import annotations

import pytest

from lmi_deploy.catalog.packaged_prices import packaged
from lmi_deploy.domain.byte_units import GIB, MIB
from lmi_deploy.domain.recipe_keys import Engine
from lmi_deploy.sizing.devices import instance_devices, named_devices
from lmi_deploy.sizing.fit_assessment import Checkpoint, Fit, assess
from lmi_deploy.sizing.fitting_instances import fitting_instances
from lmi_deploy.sizing.sizing_request import SizedEngine, SizingRequest, normalized
from lmi_deploy.workflows.fit import FitRequest, sizing_request
from tests.support.model_shapes import BERT, DEEPSEEK_V3, LLAMA_8B, LLAMA_70B, Table

H100 = "ml.p5.4xlarge"
A10G = "ml.g5.xlarge"
CONTEXT = int(0.36 * GIB)


def fit(engine: SizedEngine, table: Table, instance: str, context: int | None = None, **options: str) -> Fit:
    request = SizingRequest(engine=engine, context=context, options=normalized(options))
    return assess(Checkpoint(table=table), request, instance_devices(instance))


def test_sglang_holds_weights_and_cache_in_mem_fraction_static_of_the_free_memory() -> None:
    found = fit("sglang", LLAMA_8B, A10G, context=4096, mem_fraction_static="0.8")

    free = instance_devices(A10G).memory - CONTEXT
    assert found.verdict == "fits"
    assert found.budget == int(free * 0.8)
    assert found.parts == {"weights": found.parts["weights"]}
    assert found.cache == found.budget - found.parts["weights"]


@pytest.mark.parametrize(
    ("device", "reserved"),
    [
        # 512 MiB, 1.5 MiB a token of a step, an eighth GiB, 2 MiB a decode size, 8 MiB a prefill graph.
        ("A10G", 512 + 4096 * 1.5 + 128 + 48 * 2 + 50 * 8),
        ("H100", 512 + 8192 * 1.5 + 128 + 256 * 2 + 58 * 8),
    ],
)
def test_sglang_reserves_what_its_own_rule_says(device: str, reserved: float) -> None:
    devices = named_devices(device, 1)
    found = assess(Checkpoint(table=LLAMA_8B), SizingRequest(engine="sglang", context=4096), devices)

    assert found.budget == devices.memory - CONTEXT - int(reserved * MIB)


def test_too_large_a_share_leaves_sglang_no_room_for_its_graphs() -> None:
    found = fit("sglang", LLAMA_8B, A10G, context=4096, mem_fraction_static="0.97")

    assert found.verdict == "tight"
    assert "mem_fraction_static leaves" in found.reason


def test_sglang_refuses_a_model_that_is_too_large() -> None:
    assert fit("sglang", LLAMA_70B, A10G).verdict == "does-not-fit"
    assert fit("sglang", DEEPSEEK_V3, "ml.p5en.48xlarge", mem_fraction_static="0.9").verdict != "unknown"


@pytest.mark.parametrize(("instance", "item"), [("ml.g5.xlarge", 2), ("ml.m5.xlarge", 4)])
def test_tei_holds_the_weights_once_in_the_dtype_of_its_device(instance: str, item: int) -> None:
    found = fit("tei", BERT, instance, context=512)

    assert found.verdict == "fits"
    assert found.degree == 1
    assert found.parts["weights"] == pytest.approx(110e6 * item, rel=0.02)


def test_teis_batch_decides_its_activations() -> None:
    small = fit("tei", BERT, A10G, max_batch_tokens="1024").parts["activations"]

    assert fit("tei", BERT, A10G, max_batch_tokens="4096").parts["activations"] == 4 * small


def test_max_batch_requests_limits_the_texts_of_a_batch_on_a_gpu() -> None:
    most = fit("tei", BERT, A10G, context=512).parts["activations"]
    few = fit("tei", BERT, A10G, context=512, max_batch_requests="8").parts["activations"]
    on_cpu = fit("tei", BERT, "ml.m5.xlarge", context=512).parts["activations"]

    assert most == 4 * few
    assert (
        fit("tei", BERT, "ml.m5.xlarge", context=512, max_batch_requests="8").parts["activations"] == on_cpu
    )


def test_float32_stores_the_scores_of_all_pairs_of_tokens() -> None:
    half = fit("tei", BERT, A10G, context=512).parts["activations"]
    single = fit("tei", BERT, A10G, context=512, dtype="float32").parts["activations"]

    assert single - 2 * half == 32 * 12 * 512 * 512 * 4


def test_a_model_of_many_billions_does_not_fit_tei() -> None:
    assert fit("tei", LLAMA_70B, A10G).verdict == "does-not-fit"


def test_a_compiled_graph_has_one_core_in_layout_data_and_several_in_a_pipeline() -> None:
    data = fit("neuron", BERT, "ml.inf1.xlarge", context=128)
    pipeline = fit("neuron", BERT, "ml.inf1.xlarge", context=128, layout="pipeline")

    assert (data.verdict, data.degree, data.budget) == ("fits", 1, 2 * GIB)
    assert (pipeline.verdict, pipeline.degree) == ("fits", 4)
    assert pipeline.parts["weights"] < data.parts["weights"]
    assert fit("neuron", LLAMA_8B, "ml.inf1.xlarge", context=128).verdict == "does-not-fit"


def test_more_copies_than_cores_are_named() -> None:
    found = fit("neuron", BERT, "ml.inf1.xlarge", context=128, workers="5")

    assert found.reason == "5 copies of 1 cores need more than the 4 of the instance"


@pytest.mark.parametrize(
    ("engine", "instance", "says"),
    [
        ("neuron", "ml.inf2.xlarge", "engine neuron does not run on AWS Inferentia2; engine neuronx does"),
        ("neuronx", "ml.inf1.xlarge", "engine neuronx does not run on AWS Inferentia; engine neuron does"),
        ("neuron", A10G, "engine neuron needs NeuronCores; ml.g5.xlarge has none"),
        ("sglang", "ml.m5.xlarge", "lmi cannot judge engine sglang on a CPU; AWS's images are for GPUs"),
    ],
)
def test_the_wrong_devices_are_named(engine: SizedEngine, instance: str, says: str) -> None:
    assert fit(engine, BERT, instance, context=128).reason == says


def test_only_inferentia_1_is_offered_for_compiled_graphs() -> None:
    request = SizingRequest(engine="neuron", context=128)

    offered = fitting_instances(Checkpoint(table=BERT), request, packaged().of("us-east-1"))
    assert offered
    assert {one.instance.split(".")[1] for one in offered} == {"inf1"}


@pytest.mark.parametrize(
    ("version", "vllm"), [(None, (0, 30)), ("0.25.1", (0, 25)), ("vllm-0.23.0", (0, 23))]
)
def test_vllms_own_server_has_the_version_of_its_image_and_its_own_defaults(
    version: str | None, vllm: tuple[int, int]
) -> None:
    engine: Engine = "vllm-server"
    request = sizing_request(FitRequest(model_id="org/m", engine=engine, version=version))

    assert (request.engine, request.vllm, request.lmi) == ("vllm", vllm, False)
