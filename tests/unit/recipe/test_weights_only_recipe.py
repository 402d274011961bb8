"""A recipe whose weights alone are moved may leave out what only a deployment needs."""

from __future__ import annotations

import pytest

from lmi_deploy.errors import RecipeError
from lmi_deploy.recipe.parse import parse
from lmi_deploy.recipe.reader import MOVING

CLOUD = b"name: q\nmodel_id: a/b\nendpoint: {region: us-east-1, bucket: models}\n"


def test_weights_can_be_moved_before_an_instance_is_chosen() -> None:
    recipe = parse(CLOUD, "r.yaml", purpose=MOVING)
    assert (recipe.endpoint.target, recipe.endpoint.bucket) == ("sagemaker", "models")
    with pytest.raises(RecipeError) as caught:
        parse(CLOUD, "r.yaml")
    assert [problem.key for problem in caught.value.problems] == ["instance_type"]


def test_every_other_error_is_still_one() -> None:
    with pytest.raises(RecipeError) as caught:
        parse(CLOUD + b"modl_id: x\n", "r.yaml", purpose=MOVING)
    assert [problem.key for problem in caught.value.problems] == ["modl_id"]
