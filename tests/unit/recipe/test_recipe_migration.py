"""`lmi migrate`: names and values of options for another server version, with comments and order kept."""

from __future__ import annotations

import pytest

from lmi_deploy.errors import RecipeError, UsageRefused
from lmi_deploy.recipe.option_migration import moves
from lmi_deploy.recipe.recipe_migration import Migration, migrate
from tests.support.recipe_parsing import CHECKED, parse

OLD = """\
# my recipe
name: old           # keep me
model_id: org/m
engine: vllm
endpoint: {target: local}
container:
  version: 0.30.0   # the old one
options:
  # of the batch
  max_rolling_batch_size: 16   # wide
  rolling_batch: lmi-dist
  speculative_model: org/draft
  num_speculative_tokens: 5
  paged_attention: true
  guided_decoding_backend: xgrammar
  max_model_len: 4096
overlays:
  small: {options: {paged_attention: true, max_model_len: 100}}
"""
NEW = """\
# my recipe
name: old           # keep me
model_id: org/m
engine: vllm
endpoint: {target: local}
container:
  version: 0.36.0   # the old one
options:
  # of the batch
  max_rolling_batch_size: 16   # wide
  # since 0.35, the server runs vLLM's asynchronous service, which has no rolling batch:
  # rolling_batch: lmi-dist
  speculative_config: '{"model": "org/draft", "num_speculative_tokens": 5}'
  # part of speculative_config:
  # num_speculative_tokens: 5
  # removed in 0.26.0:
  # paged_attention: true
  structured_outputs_config: '{"backend": "xgrammar"}'
  max_model_len: 4096
overlays:
  small: {options: {max_model_len: 100}}
"""


def migrated(text: str, version: str = "0.36.0") -> Migration:
    return migrate(text, "r.yaml", version, CHECKED)


def test_only_changed_lines_are_rewritten() -> None:
    found = migrated(OLD)
    assert found.text == NEW
    assert found.problems == ()
    assert [(change.line, change.key) for change in found.changes] == [
        (7, "container.version"),
        (11, "options.rolling_batch"),
        (12, "options.speculative_model"),
        (13, "options.num_speculative_tokens"),
        (14, "options.paged_attention"),
        (15, "options.guided_decoding_backend"),
        (18, "options.paged_attention"),
    ]
    assert all(change.why for change in found.changes[1:])


def test_second_migration_changes_nothing() -> None:
    found = migrated(NEW)
    assert (found.text, found.changes) == (NEW, ())


def test_option_unknown_to_an_older_server_is_commented_out() -> None:
    found = migrated(NEW, "0.30.0")
    assert "  # added in 0.35.0:\n  # structured_outputs_config: " in found.text
    assert parse(found.text, "r.yaml").container.version == "0.30.0"


BASE = "name: a\nmodel_id: org/m\n"


@pytest.mark.parametrize(
    ("text", "result"),
    [
        (BASE, BASE + "container: {version: 0.36.0}\n"),
        (BASE.rstrip(), BASE + "container: {version: 0.36.0}\n"),
        (
            BASE + "container: {environment: {A: b}}\n",
            BASE + "container: {version: 0.36.0, environment: {A: b}}\n",
        ),
        (
            BASE + "container:\n  environment: {A: b}\n",
            BASE + "container:\n  version: 0.36.0\n  environment: {A: b}\n",
        ),
        ("{name: a, model_id: org/m}", "{container: {version: 0.36.0}, name: a, model_id: org/m}"),
        (
            BASE + "container: {version: 0.30.0}\noptions: {swap_space: 4}\n",
            BASE + "container: {version: 0.36.0}\noptions: {}\n",
        ),
        (
            BASE + "container: {version: 0.30.0}\noptions: {dtype: bf16, swap_space: 4}\n",
            BASE + "container: {version: 0.36.0}\noptions: {dtype: bf16}\n",
        ),
        (
            BASE + "container: {version: 0.30.0}\noptions:\n  swap_space: 4\n",
            BASE
            + "container: {version: 0.36.0}\noptions: {}\n  # removed in 0.36.0/lmi23:\n  # swap_space: 4\n",
        ),
        (
            BASE + "container: {version: 0.30.0}\noptions:\n  swap_space: >\n    4\nttl: 8h\n",
            BASE
            + "container: {version: 0.36.0}\noptions: {}\n  # removed in 0.36.0/lmi23:\n  # swap_space: >\n"
            "  #   4\nttl: 8h\n",
        ),
    ],
)
def test_every_yaml_style_stays_valid(text: str, result: str) -> None:
    found = migrated(text)
    assert found.text == result
    assert found.problems == ()


def test_earlier_mistake_is_not_reported_by_the_migration() -> None:
    found = migrated(BASE + "container: {version: 0.30.0}\noptions:\n  enable_streaming: banana\n")
    assert found.changes
    assert found.problems == ()


@pytest.mark.parametrize("text", ["", "- a\n", "name: [\n", "a: *b\n"])
def test_text_that_is_no_recipe_is_refused(text: str) -> None:
    with pytest.raises(RecipeError):
        migrated(text)


def test_own_image_and_named_version_are_refused() -> None:
    with pytest.raises(UsageRefused, match=r"container\.image names your own image"):
        migrated(BASE + "container: {image: 123456789012.dkr.ecr.us-east-1.amazonaws.com/mine:1}\n")
    with pytest.raises(UsageRefused, match="is not a version of the server"):
        migrated(BASE, "newest")


@pytest.mark.parametrize(
    ("pairs", "version", "became"),
    [
        ({"load_in_8bit": "true"}, "0.36.0", {"load_in_8bit": ("quantize", "bitsandbytes")}),
        ({"max_tokens": "2048"}, "0.36.0", {"max_tokens": ("max_model_len", "2048")}),
        ({"max_tokens": "2048", "max_model_len": "4096"}, "0.36.0", {"max_tokens": None}),
        ({"max_num_seqs": "8"}, "0.28.0", {"max_num_seqs": ("max_rolling_batch_size", "8")}),
        (
            {"speculative_model": "[ngram]", "ngram_prompt_lookup_max": "4", "num_speculative_tokens": "5"},
            "0.36.0",
            {
                "speculative_model": (
                    "speculative_config",
                    '{"method": "ngram", "prompt_lookup_max": 4, "num_speculative_tokens": 5}',
                ),
                "ngram_prompt_lookup_max": None,
                "num_speculative_tokens": None,
            },
        ),
    ],
)
def test_renamed_settings_keep_their_meaning(
    pairs: dict[str, str], version: str, became: dict[str, tuple[str, str] | None]
) -> None:
    assert {move.name: move.became for move in moves("vllm", pairs.items(), version)} == became


def test_rolling_batch_stays_when_the_recipe_names_its_handler() -> None:
    pairs = [("rolling_batch", "vllm")]
    assert moves("vllm", pairs, "0.36.0", keeps_rolling_batch=True) == ()
    assert moves("vllm", pairs, "0.34.0") == ()
