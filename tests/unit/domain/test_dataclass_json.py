"""Domain objects survive a round trip through JSON, or invalid JSON is refused."""

import json
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.domain.dataclass_json import dump, load
from lmi_deploy.domain.record import DeploymentRef, Generation, Intent, Record

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
NAMES = st.dictionaries(st.text(max_size=4), PLAIN, max_size=3)
WORDS = st.text(max_size=8)
# NaN differs from itself.
st.register_type_strategy(float, st.floats(allow_nan=False))
GENERATIONS = st.builds(
    Generation,
    server=WORDS,
    spec=WORDS,
    artifact=WORDS,
    runtime=WORDS,
    host=WORDS,
    port=st.integers(),
    since=WORDS,
)
INTENTS = st.builds(Intent, action=WORDS, names=NAMES, outcome=st.none() | WORDS)
RECORDS = st.builds(
    Record,
    ref=st.builds(DeploymentRef, name=WORDS, target=st.sampled_from(["local", "sagemaker"])),
    generations=st.lists(GENERATIONS, max_size=3).map(tuple),
    intents=st.lists(INTENTS, max_size=3).map(tuple),
)


@dataclass(frozen=True)
class Sized:
    weight: float
    pair: tuple[str, int]
    kind: Literal["a", "b"] = "a"


@given(RECORDS)
def test_record_survives_a_json_round_trip(record: Record) -> None:
    assert load(Record, json.loads(json.dumps(dump(record)))) == record


def test_integer_becomes_a_float_where_a_float_is_declared() -> None:
    assert load(Sized, {"weight": 2, "pair": ["x", 1]}) == Sized(weight=2.0, pair=("x", 1))


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        {"weight": True, "pair": ["x", 1]},
        {"weight": 1.0, "pair": ["x"]},
        {"weight": 1.0, "pair": ["x", "1"]},
        {"weight": 1.0, "pair": ["x", 1], "kind": "c"},
        {"weight": None, "pair": ["x", 1]},
    ],
)
def test_invalid_form_is_a_value_error(value: Any) -> None:
    with pytest.raises(ValueError):
        load(Sized, value)


def test_unknown_field_of_a_newer_version_is_ignored() -> None:
    assert load(Sized, {"weight": 1.0, "pair": ["x", 1], "colour": "red"}).weight == 1.0
