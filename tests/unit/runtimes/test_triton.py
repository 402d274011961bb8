"""Runtime triton: paths and headers that the front end translates, and the model that the image's rules choose."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmi_deploy.errors import DeployFailed
from lmi_deploy.runtimes.triton.front_end import Head, answered, translated
from lmi_deploy.runtimes.triton.runtime import find_triton, served_model

BINARY = "application/vnd.sagemaker-triton.binary+json;json-header-size="


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("GET /ping HTTP/1.1", "GET /v2/health/ready HTTP/1.1"),
        ("POST /invocations HTTP/1.1", "POST /v2/models/t5/infer HTTP/1.1"),
        ("GET /v2/models/t5/stats HTTP/1.1", "GET /v2/models/t5/stats HTTP/1.1"),
        ("POST /ping HTTP/1.1", "POST /ping HTTP/1.1"),
    ],
)
def test_paths_of_sagemaker_become_those_of_triton(line: str, expected: str) -> None:
    assert translated(Head(line, {}), "t5").line == expected


def test_binary_tensors_keep_the_size_of_their_json_header() -> None:
    request = Head("POST /invocations HTTP/1.1", {"content-type": f"{BINARY}172", "content-length": "200"})
    sent = translated(request, "t5")
    assert sent.headers["inference-header-content-length"] == "172"
    assert sent.headers["content-type"] == "application/octet-stream"
    response = Head("HTTP/1.1 200 OK", {"inference-header-content-length": "99", "content-length": "120"})
    assert answered(response).headers["content-type"] == f"{BINARY}99"


def test_response_is_not_compressed_for_a_client_that_only_passes_it_on() -> None:
    request = Head("POST /invocations HTTP/1.1", {"accept-encoding": "gzip, deflate"})
    assert "accept-encoding" not in translated(request, "t5").headers


def repository(root: Path, *models: str) -> Path:
    for name in models:
        (root / name).mkdir()
        (root / name / "config.pbtxt").touch()
    return root


def test_named_model_is_served_or_else_the_only_one(tmp_path: Path) -> None:
    assert served_model(repository(tmp_path, "t5"), {}) == "t5"
    repository(tmp_path, "decoder")
    assert served_model(tmp_path, {"SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": "t5"}) == "t5"


@pytest.mark.parametrize(
    ("models", "named", "words"),
    [
        ((), "", "No model found in model repository"),
        (("a", "b"), "", "More than 1 model directory found"),
        (("a",), "c", "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME c does not exist"),
    ],
)
def test_repository_without_a_clear_model_is_refused_as_by_the_image(
    tmp_path: Path, models: tuple[str, ...], named: str, words: str
) -> None:
    variables = {"SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": named} if named else {}
    with pytest.raises(DeployFailed, match=words):
        served_model(repository(tmp_path, *models), variables)


def test_config_at_the_top_is_refused_as_by_the_image(tmp_path: Path) -> None:
    (tmp_path / "config.pbtxt").touch()
    with pytest.raises(DeployFailed, match="Incorrect directory structure"):
        served_model(tmp_path, {})


def test_environment_without_triton_has_none(tmp_path: Path) -> None:
    assert find_triton(tmp_path / "bin" / "python") is None
