"""The state that `--dir` keeps of moto is data: it survives a round trip, and no document runs code."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.emulator.services.moto_state import FORMAT, dumped, loaded
from lmi_deploy.errors import Refused

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary(max_size=9000) | st.datetimes(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=4)
        | st.tuples(inner, inner)
    ),
    max_leaves=12,
)


@given(PLAIN)
def test_data_survives_a_round_trip(value: Any) -> None:
    assert loaded(dumped(value), "x") == value


def test_shared_objects_stay_shared_after_a_round_trip() -> None:
    from moto.iam.models import AccessKey
    from moto.s3.models import FakeKey

    key = AccessKey("ada", "AKIA", "123456789012")
    large = FakeKey("k", b"x" * 10_000, "123456789012", "us-east-1")
    existing = defaultdict(list, {"a": [key, large]})
    again = loaded(dumped({"one": existing, "two": key, "three": re.compile("a+")}), "x")
    assert again["two"] is again["one"]["a"][0]
    assert vars(again["two"]) == vars(key)
    assert (again["one"]["a"][1].value, again["one"]["new"]) == (b"x" * 10_000, [])
    assert again["three"].match("aa")


def test_state_that_grows_while_it_is_written_is_written() -> None:
    state: dict[str, Any] = {}

    class Meanwhile(datetime):
        def isoformat(self, *arguments: Any) -> str:  # type: ignore[override]
            state["later"] = True
            return super().isoformat(*arguments)

    state |= {"at": Meanwhile(2026, 11, 26), "name": "role"}
    assert loaded(dumped(state), "x") == {"at": datetime(2026, 11, 26), "name": "role"}


def test_cyclic_object_stays_cyclic_after_a_round_trip() -> None:
    circle: dict[str, Any] = {"when": datetime.now(UTC)}
    circle["self"] = [circle]
    again = loaded(dumped(circle), "x")
    assert again["self"][0] is again


@pytest.mark.parametrize(
    "name",
    [
        *("os:system", "builtins:eval", "subprocess:Popen", "moto.s3.models:os", "collections:abc"),
        *("moto.s3.models:urllib.parse", "moto.iam.models:datetime", "moto.s3.models:get_canned_acl", ""),
    ],
)
def test_other_class_is_never_instantiated(name: str) -> None:
    objects = [{"class": name, "state": []}]
    document = json.dumps({"format": FORMAT, "root": {"ref": 0}, "objects": objects}).encode()
    with pytest.raises(Refused, match="not the state of this version of the emulator"):
        loaded(document, "x")


@pytest.mark.parametrize(
    "content", [b"", b"\x80\x04.", b"{}", b"[]", b'{"format": "another", "root": 1, "objects": []}', b"null"]
)
def test_invalid_state_document_is_refused(content: bytes) -> None:
    with pytest.raises(Refused) as refused:
        loaded(content, "dir/iam/aws.state")
    assert "dir/iam/aws.state" in refused.value.message
    assert "--dir" in refused.value.hint


def test_emulator_never_unpickles() -> None:
    source = Path(__file__).resolve().parents[3] / "src" / "lmi_deploy" / "emulator"
    assert [
        path
        for path in source.rglob("*.py")
        if re.search(r"^\s*(import|from) (pickle|marshal|shelve)\b", path.read_text(), re.M)
    ] == []
