"""Every word of the tables has an explanation, and a mistyped one its nearest."""

from __future__ import annotations

import pytest

from lmi_deploy.catalog.failure_classes import failure_classes
from lmi_deploy.catalog.known_failures import failures
from lmi_deploy.errors import EXIT_CODES, LmiError, UsageRefused
from lmi_deploy.planning.explain import explain, recipe_keys


def test_every_key_failure_error_and_exit_code_is_explained() -> None:
    words = [
        *(path for path, _ in recipe_keys()),
        *(failure.id for failure in failures()),
        *(each.id for each in failure_classes()),
        *(kind.__name__ for kind in LmiError.__subclasses__()),
        *(str(code) for code in EXIT_CODES),
    ]
    for word in words:
        assert all(each.text for each in explain(word)), word


@pytest.mark.parametrize(
    "word",
    [
        "max_model_len",
        "option.max_model_len",
        "OPTION_MAX_MODEL_LEN",
        "--max-model-len",
        "options.max_model_len",
    ],
)
def test_option_is_known_by_each_of_its_spellings(word: str) -> None:
    assert "An option of vllm; in a recipe below `options`." in [each.text for each in explain(word)]


def test_last_part_of_a_key_is_enough() -> None:
    (key,) = [each for each in explain("region") if each.kind == "recipe key"]
    assert (key.name, dict(key.facts)["example"], key.page) == (
        "endpoint.region",
        "region: us-east-1",
        "recipe",
    )
    (group,) = explain("endpoint.autoscaling")
    assert dict(group.facts)["keys"].split(", ")[:3] == ["min", "max", "invocations_per_instance"]


def test_unknown_word_gets_the_nearest() -> None:
    with pytest.raises(UsageRefused) as caught:
        explain("max_modle_len")
    assert "did you mean max_model_len?" in caught.value.hint
