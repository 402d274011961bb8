"""The union of two policies: it allows what either does, once, and nothing else."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.domain.role_setup import beyond, united

NAMES = st.sampled_from(["Read", "Write", "List"])
SOME = st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True)
CONDITIONS = st.sampled_from([{}, {"Condition": {"StringEquals": {"aws:SourceAccount": "1"}}}])


def _statement(sid: str, actions: list[str], resources: list[str], more: dict[str, Any]) -> dict[str, Any]:
    return {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resources, **more}


DOCUMENTS = st.lists(
    st.builds(_statement, NAMES, SOME, SOME, CONDITIONS), unique_by=lambda each: each["Sid"]
).map(lambda statements: {"Version": "2012-10-17", "Statement": statements})


def allowed(document: dict[str, Any]) -> set[tuple[str, str, str]]:
    return {
        (action, resource, str(statement.get("Condition")))
        for statement in document["Statement"]
        for action in statement["Action"]
        for resource in statement["Resource"]
    }


@given(DOCUMENTS, DOCUMENTS)
def test_union_allows_what_either_does_and_nothing_else(existing: Any, wanted: Any) -> None:
    both = united(existing, wanted)
    assert allowed(both) == allowed(existing) | allowed(wanted)
    sids = [statement["Sid"] for statement in both["Statement"]]
    assert len(set(sids)) == len(sids)
    assert united(both, wanted) == both
    assert united(both, existing) == both
    assert beyond(existing, both) == ()


def test_one_statement_and_one_action_may_stand_without_brackets() -> None:
    alone = {"Statement": {"Sid": "Read", "Effect": "Allow", "Action": "s3:GetObject", "Resource": "a"}}
    listed = {
        "Statement": [{"Sid": "Read", "Effect": "Allow", "Action": ["s3:GetObject"], "Resource": ["b"]}]
    }
    assert united(alone, listed)["Statement"][0]["Resource"] == ["b", "a"]
    assert beyond(alone, listed) == ("Read on a",)
