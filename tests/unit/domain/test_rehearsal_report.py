"""What a rehearsal leaves out, and says so."""

from __future__ import annotations

import pytest

from lmi_deploy.domain.rehearsal_report import not_provable
from tests.support.recipe_parsing import parse


@pytest.mark.parametrize(
    ("more", "left_out"),
    [
        ("engine: vllm\nendpoint: {target: local}\n", True),
        ("engine: vllm\ninstance_type: ml.g5.xlarge\n", False),
        (
            "engine: custom\nhandler: {file: model.py}\nprobe: {body: '{}'}\nendpoint: {target: local}\n",
            False,
        ),
    ],
)
def test_adapters_of_a_real_engine_are_left_out_and_named(more: str, left_out: bool) -> None:
    recipe = parse(f"name: m\nmodel_id: org/m\nadapters: {{a: org/a}}\n{more}", "m.yaml")
    lines = not_provable(recipe, is_replaced=False)
    assert any(line.startswith("the LoRA adapters") for line in lines) is left_out
