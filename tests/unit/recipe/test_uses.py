"""A recipe whose weights alone are moved may name what no deployment can be made of yet."""

from __future__ import annotations

import pytest

from lmi_deploy.decide.parse import parse
from lmi_deploy.errors import RecipeError

CLOUD = (
    b"name: q\nmodel_id: a/b\ninstance_type: ml.g5.xlarge\nendpoint: {region: us-east-1, bucket: models}\n"
)


def test_weights_of_a_recipe_for_the_cloud_can_be_moved_already() -> None:
    recipe = parse(CLOUD, "r.yaml", deploying=False)
    assert (recipe.endpoint.target, recipe.endpoint.bucket) == ("sagemaker", "models")
    with pytest.raises(RecipeError, match="mistake"):
        parse(CLOUD, "r.yaml")


def test_a_way_that_is_not_built_is_refused_all_the_same() -> None:
    with pytest.raises(RecipeError) as caught:
        parse(CLOUD + b"weights: {via: job}\n", "r.yaml", deploying=False)
    assert [str(problem) for problem in caught.value.problems] == [
        "r.yaml:5:11: weights.via: not yet: job (transfers inside AWS)"
    ]


def test_every_other_mistake_is_still_one() -> None:
    with pytest.raises(RecipeError) as caught:
        parse(CLOUD + b"modl_id: x\n", "r.yaml", deploying=False)
    assert [problem.key for problem in caught.value.problems] == ["modl_id"]
