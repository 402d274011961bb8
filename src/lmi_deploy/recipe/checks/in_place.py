"""Cross-checks of `weights.in_place`: a model that the endpoint reads where it is."""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.domain.s3_address import SCHEME
from lmi_deploy.errors.recipe_problem import Problem
from lmi_deploy.recipe.reader import ParsedFields

IN_PLACE = "weights.in_place"


def in_place(partial: ParsedFields) -> Iterator[Problem]:
    if not partial.value(IN_PLACE):
        return
    model_id = str(partial.value("model_id", ""))
    if model_id and not model_id.startswith(SCHEME) and partial.is_valid("model_id"):
        what = f"needs a model in S3, but model_id is {model_id}"
        yield partial.problem(IN_PLACE, what, "such as model_id: s3://my-bucket/models/mine/")
    elif "compile" in partial.found:
        what = "cannot be combined with compile, whose result lmi stores in its own bucket"
        yield partial.problem(IN_PLACE, what, "remove one of them")
    for key in ("files.allow", "files.ignore"):
        if partial.value(key):
            what = "has no effect on weights in place: the container gets every object under the prefix"
            yield partial.problem(key, what, "remove it, or weights.in_place")
    if partial.value("weights.deliver") == "artifact":
        what = "artifact copies the weights, but weights.in_place is true"
        yield partial.problem("weights.deliver", what, "use s3 or mount, or omit it")
