"""Settings by the recipe's names."""

from __future__ import annotations

import pytest

from lmi_deploy.planning.explain import explain, recipe_keys
from lmi_deploy.planning.setting_names import RECIPE_KEYS, recipe_key_of, settings_text, with_recipe_keys
from lmi_deploy.recipe.model.user_mappings import ENVIRONMENT_HOMES, OPTION_HOMES


def test_every_name_is_a_key_of_the_recipe() -> None:
    known = {path for path, _ in recipe_keys()}
    named = {*RECIPE_KEYS.values(), *OPTION_HOMES.values(), *ENVIRONMENT_HOMES.values()}
    assert {name for name in named if name not in known} == {"options.speculative_config"}


@pytest.mark.parametrize(
    ("setting", "key"),
    [
        ("option.dtype", "options.dtype"),
        ("option.model_id", "model_id"),
        ("env.NCCL_DEBUG", "container.environment.NCCL_DEBUG"),
        ("env.HF_TASK", "task"),
        ("env.HF_TOKEN", "env.HF_TOKEN"),  # the recipe refuses it
        ("maxWorkers", "properties.maxWorkers"),
        ("instance_type", "instance_type"),
        ("client.retries", "client.retries"),
    ],
)
def test_recipe_key_of_a_setting(setting: str, key: str) -> None:
    assert recipe_key_of(setting) == key


def test_own_name_is_beside_another_one() -> None:
    given = (
        "option.dtype",
        "InferenceAmiVersion",
        "option.model_id",
        "instance_type",
        "option.dtype",
        "model_data",
    )
    assert settings_text(given) == (
        "options.dtype, container.host_ami (InferenceAmiVersion), model_id (option.model_id, model_data), instance_type"
    )


def test_remedy_names_keys_of_the_recipe() -> None:
    text = "Use more devices (option.tensor_parallel_degree), a smaller option.max_model_len, or the option itself."
    assert with_recipe_keys(text) == (
        "Use more devices (tensor_parallel_degree), a smaller options.max_model_len, or the option itself."
    )


def test_explained_failure_names_keys_of_the_recipe() -> None:
    (meaning,) = explain("image-wrong-architecture")
    assert dict(meaning.facts)["about"] == "container.image (image)"
