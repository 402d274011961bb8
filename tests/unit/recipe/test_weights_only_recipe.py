"""A recipe for weights alone may omit what only a deployment needs."""

from __future__ import annotations

import pytest

from lmi_deploy.errors import RecipeError
from tests.support.recipe_parsing import MOVING, parse

CLOUD = b"name: q\nmodel_id: a/b\nendpoint: {region: us-east-1, bucket: models}\n"


def test_recipe_for_weights_needs_no_instance_type() -> None:
    recipe = parse(CLOUD, "r.yaml", purpose=MOVING)
    assert (recipe.endpoint.target, recipe.endpoint.bucket) == ("sagemaker", "models")
    with pytest.raises(RecipeError) as caught:
        parse(CLOUD, "r.yaml")
    assert [problem.key for problem in caught.value.problems] == ["instance_type"]


def test_other_errors_are_still_reported() -> None:
    with pytest.raises(RecipeError) as caught:
        parse(CLOUD + b"modl_id: x\n", "r.yaml", purpose=MOVING)
    assert [problem.key for problem in caught.value.problems] == ["modl_id"]
