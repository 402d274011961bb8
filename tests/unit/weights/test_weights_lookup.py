"""Weights in a bucket found by what people have: a name, its beginning, the model's id, an address."""

from __future__ import annotations

import pytest

from lmi_deploy.domain.weights import Manifest, weights_prefix
from lmi_deploy.errors import NotFound, UsageRefused
from lmi_deploy.weights.weights_lookup import find_weights


def manifest(model_id: str, commit: str) -> Manifest:
    name = f"{model_id.replace('/', '--')}/{commit * 40}-{commit * 8}"
    return Manifest(
        name=name,
        model_id=model_id,
        commit=commit * 40,
        source="hub",
        files=(),
        created="2026-01-01T00:00:00+00:00",
        tool="1",
    )


SMALL = manifest("HuggingFaceTB/SmolLM2-135M-Instruct", "a")
OLD, NEW = manifest("google/flan-t5-xxl", "b"), manifest("google/flan-t5-xxl", "c")
MANIFESTS = (SMALL, OLD, NEW)
ADDRESS = f"s3://models/{weights_prefix(SMALL.name)}"


@pytest.mark.parametrize(
    "requests", [SMALL.name, "Hugging", "HuggingFaceTB/SmolLM2-135M-Instruct", ADDRESS, ADDRESS.rstrip("/")]
)
def test_unambiguous_name_is_found(requests: str) -> None:
    assert find_weights(MANIFESTS, requests, "models") == SMALL


@pytest.mark.parametrize("requests", ["google", "google/flan-t5-xxl", ""])
def test_ambiguous_name_is_refused_with_the_matches(requests: str) -> None:
    with pytest.raises(UsageRefused, match=OLD.name):
        find_weights(MANIFESTS, requests, "models")


@pytest.mark.parametrize(
    ("requests", "suggestion"),
    [
        ("HugingFaceTB", "HuggingFaceTB/SmolLM2-135M-Instruct"),
        ("HuggingFaceTB/SmolLM2-135M-Instruc", "HuggingFaceTB/SmolLM2-135M-Instruct"),
        ("google/flan-t5-xl", "google/flan-t5-xxl"),
    ],
)
def test_typo_gets_a_suggestion(requests: str, suggestion: str) -> None:
    with pytest.raises(NotFound, match="no such weights in models") as caught:
        find_weights(MANIFESTS, requests, "models")
    assert f"did you mean {suggestion}?" in caught.value.hint
    assert "lmi weights ls --bucket models" in caught.value.hint


def test_unknown_name_gets_no_suggestion() -> None:
    with pytest.raises(NotFound) as caught:
        find_weights(MANIFESTS, "bert", "models")
    assert "did you mean" not in caught.value.hint
