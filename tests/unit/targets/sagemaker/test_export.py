"""The languages of stacks, and what no stack expresses."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.domain.sagemaker.exported_stack import (
    claim_key,
    claim_text,
    claimant,
    claimed_weights,
    is_exported,
    split_stored,
)
from lmi_deploy.domain.sagemaker.scaling_settings import Scaling
from lmi_deploy.domain.settings_digest import digest_tag
from lmi_deploy.errors import Refused
from lmi_deploy.planning.render import render
from lmi_deploy.targets.sagemaker.export import stack as export_stack
from lmi_deploy.targets.sagemaker.export.hcl_text import Body, hcl_lines, quoted
from lmi_deploy.targets.sagemaker.export.parameters import environment_parameters
from lmi_deploy.targets.sagemaker.export.yaml_text import yaml_lines
from tests.golden.test_golden_sagemaker import resolved

TEXTS = st.text(st.characters(exclude_categories=("Cs",)))
VALUES = st.recursive(
    st.one_of(TEXTS, st.integers(), st.booleans()),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3), st.dictionaries(TEXTS, inner, min_size=1, max_size=3)
    ),
    max_leaves=12,
)


@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=4))
def test_yaml_is_read_as_it_was_meant(value: dict[str, Any]) -> None:
    assert yaml.safe_load("\n".join(yaml_lines(value))) == value


@pytest.mark.parametrize(
    "text", ["yes", "NULL", "1e3", "0o7", "2026-11-25", "", "a: b", "- a", "!Ref x", "{}"]
)
def test_yaml_quotes_what_looks_like_something_else(text: str) -> None:
    assert yaml.safe_load("\n".join(yaml_lines({"key": text}))) == {"key": text}


def test_hcl_escapes_what_would_be_evaluated() -> None:
    assert quoted('${var.x} %{if} "\\ \n') == '$${var.x} %%{if} \\"\\\\ \\n'
    lines = list(hcl_lines(Body({"environment": {"A B": "${x}", "C": "1"}})))
    assert lines == ["environment = {", '  "A B" = "$${x}"', '  C     = "1"', "}"]


def test_variables_of_one_spelling_get_two_parameters() -> None:
    found = environment_parameters({"A_B": "1", "a.b": "2", "a_B": "3", "A_B_2": "4"}, with_values=True)
    assert len({each.words for each in found.values()}) == 4
    assert found["A_B"].words == ("environment", "a", "b")


def test_every_exported_field_exists() -> None:
    for kind, names in export_stack._EXPORTED.items():
        assert names <= {each.name for each in dataclasses.fields(kind)}, kind.__name__


@digest_tag("LaterScaling")
@dataclasses.dataclass(frozen=True, kw_only=True)
class _LaterScaling(Scaling):
    warm_up: int = 0


def test_setting_that_no_format_writes_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        export_stack._EXPORTED,
        _LaterScaling,
        export_stack._EXPORTED[Scaling],  # type: ignore[arg-type]
    )
    spec = resolved("smollm2-g5")
    for warm_up in (0, 60):
        scaling = _LaterScaling(least=1, most=2, invocations=3, warm_up=warm_up)
        changed = dataclasses.replace(spec, place=dataclasses.replace(spec.cloud, scaling=scaling))
        if not warm_up:
            export_stack.stack_of(changed, render(spec), with_environment=False)
            continue
        with pytest.raises(Refused, match="warm_up: `lmi export` cannot express it yet"):
            export_stack.stack_of(changed, render(spec), with_environment=False)


def test_claim_is_found_by_its_key_and_names_the_weights() -> None:
    spec = resolved("smollm2-g5")
    key = claim_key("chat", "exported/0123")
    assert key == "deployments/chat/exported/0123.json"
    assert claimant(key) == "chat (exported)"
    assert claimed_weights(claim_text(spec))[0].startswith("HuggingFaceTB--SmolLM2-135M-Instruct/")
    for other in (
        "deployments/chat/record.json",
        "deployments/chat/exported",
        "weights/chat/exported/a.json",
    ):
        assert claimant(other) == ""
    for text in (b"[]", b"{}", b'{"weights": 3}', b"x"):
        with pytest.raises(ValueError, match=r".+"):
            claimed_weights(text)


def test_name_of_an_exported_artifact_contains_its_folder() -> None:
    assert split_stored("0123/a/b") == ("0123", "a/b")
    assert split_stored("exported/0123/a/b") == ("exported/0123", "a/b")
    assert [is_exported(one) for one in ("0123", "exported/0123", "exported")] == [False, True, False]
