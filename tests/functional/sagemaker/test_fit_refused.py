"""`plan` and `up` of an endpoint whose instance type cannot hold the model."""

from __future__ import annotations

import json

import pytest

from tests.support.cloud_app import MODEL, CloudApp
from tests.support.model_shapes import LLAMA_70B

SHORT = ("--set", "options.max_model_len=1024")


@pytest.fixture
def large(app: CloudApp) -> CloudApp:
    """Little to upload, and a KV cache of 320 KiB per token: 40 GiB at the model's full length."""
    app.hub.models[MODEL]["config.json"] = json.dumps(LLAMA_70B).encode()
    return app


def vllm(*more: str) -> tuple[str, ...]:
    return ("--set", "engine=vllm", *more)


@pytest.mark.parametrize("command", [("plan",), ("up", "--yes")])
def test_model_that_does_not_fit_is_refused_with_remedies(large: CloudApp, command: tuple[str, ...]) -> None:
    result = large.lmi(*command, *vllm())
    assert result.code == 2
    assert (
        f"error: {MODEL} does not fit on ml.g5.xlarge: the sequences take 40.0 GiB of KV cache" in result.err
    )
    assert "shorter sequences: max_model_len " in result.err
    assert "a larger machine: ml." in result.err
    assert "--force-fit" in result.err
    assert large.cloud_resources() == []


def test_shorter_sequence_length_is_planned_as_fitting(large: CloudApp) -> None:
    result = large.lmi("plan", *vllm(*SHORT))
    assert result.code == 0, result.err
    assert "fit: fits" in result.out


def test_force_fit_deploys_a_model_that_does_not_fit(large: CloudApp) -> None:
    assert large.lmi("up", "--yes", "--force-fit", *vllm()).code == 0
    assert large.cloud_resources() != []


def test_running_deployment_is_not_refused(large: CloudApp) -> None:
    assert large.lmi("up", "--yes", "--force-fit", *vllm()).code == 0
    assert large.lmi("plan", *vllm(), "--exit-code").code == 0
    assert large.lmi("up", "--yes", *vllm()).code == 0


def test_instance_type_auto_chooses_the_cheapest_and_keeps_it(large: CloudApp) -> None:
    auto = ("--set", "instance_type=auto")
    result = large.lmi("plan", *vllm(*auto))
    assert result.code == 0, result.err
    assert "instance_type auto: ml." in result.err
    assert "the cheapest that holds the model (fits)" in result.err
    assert large.lmi("up", "--yes", *vllm(*auto)).code == 0
    assert large.lmi("plan", *vllm(*auto), "--exit-code").code == 0


def test_model_the_engine_cannot_run_is_refused_before_anything_is_created(large: CloudApp) -> None:
    result = large.lmi("up", "--yes", *vllm(*SHORT, "--set", "options.quantize=awq"))
    assert result.code == 2
    assert "options.quantize: awq needs quantized weights" in result.err
    large.hub.models[MODEL]["config.json"] = json.dumps(
        {**LLAMA_70B, "architectures": ["T5ForConditionalGeneration"], "is_encoder_decoder": True}
    ).encode()
    result = large.lmi("plan", *vllm(*SHORT))
    assert result.code == 2
    assert "engine: vLLM 0.28.0 does not support T5ForConditionalGeneration, an encoder-decoder" in result.err
    assert large.cloud_resources() == []
