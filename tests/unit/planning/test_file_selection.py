"""Which files of a repository are selected, and the reasons for the others."""

from __future__ import annotations

import pytest

from lmi_deploy.domain.deployment_spec import WeightsSpec
from lmi_deploy.domain.recipe_weights_keys import Files
from lmi_deploy.errors import Unresolvable
from lmi_deploy.planning.file_selection import INDEX, require_shards, select
from tests.support.factories import listing


def chosen(*paths: str, files: Files | None = None, code: bool = False) -> tuple[list[str], dict[str, int]]:
    found = select(listing(*paths), files or Files(), remote_code=code)
    return [file.path for file in found.files], dict(found.left_out)


def test_safetensors_and_their_companions_are_selected_with_reasons() -> None:
    assert chosen(
        ".gitattributes",
        "LICENSE.txt",
        "README.md",
        "chat_template.jinja",
        "config.json",
        "consolidated.safetensors",
        "flax_model.msgpack",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.gguf",
        "modeling_own.py",
        "onnx/model.onnx",
        "original/params.json",
        "pytorch_model.bin",
        "tokenizer.model",
        "vocab.txt",
    ) == (
        [
            "chat_template.jinja",
            "config.json",
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
            "tokenizer.model",
            "vocab.txt",
        ],
        {
            "a duplicate of the sharded weights": 1,
            "code (trust_remote_code is false)": 1,
            "for another framework": 4,
            "not needed to serve": 3,
            "pickle, but safetensors exist": 1,
        },
    )


def test_all_files_go_with_own_code_if_none_is_known_as_weights() -> None:
    """Only the code of the user knows what they are; of a repository with weights the usual ones go."""
    files = listing("__pycache__/model.pyc", "model.py", "table.npy")
    found = select(files, Files(), remote_code=False, own_code=True)
    assert [file.path for file in found.files] == ["model.py", "table.npy"]
    ignoring = select(files, Files(ignore=("*.py",)), remote_code=False, own_code=True)
    assert [file.path for file in ignoring.files] == ["table.npy"]
    with pytest.raises(Unresolvable, match="none of the 3 files"):
        select(files, Files(ignore=("*",)), remote_code=False, own_code=True)
    with pytest.raises(Unresolvable, match="only as pickle"):
        select(listing("model.py", "model.pt"), Files(), remote_code=False, own_code=True)


def test_consolidated_weights_alone_are_selected() -> None:
    assert chosen("config.json", "consolidated.safetensors")[0] == ["config.json", "consolidated.safetensors"]


def test_mistrals_own_format_is_selected_if_the_engine_reads_it() -> None:
    paths = (
        *("config.json", "consolidated.safetensors", "model-00001-of-00001.safetensors"),
        *("model.safetensors.index.json", "params.json", "tekken.json"),
    )
    found = select(listing(*paths), Files(), remote_code=False, in_mistrals_format=True)
    assert [file.path for file in found.files] == [
        *("config.json", "consolidated.safetensors", "params.json", "tekken.json"),
    ]
    assert dict(found.left_out) == {"not read with load_format mistral": 2}
    index = "consolidated.safetensors.index.json"
    assert (
        select(listing(*paths, index), Files(), remote_code=False).size
        == select(listing(*paths), Files(), remote_code=False).size
    ), "the selection of other recipes stays, and with it the name of their weights"
    with pytest.raises(Unresolvable, match=r"reads consolidated\.safetensors, and .* does not have it"):
        select(
            listing("config.json", "model.safetensors"), Files(), remote_code=False, in_mistrals_format=True
        )
    chosen_by_hand = Files(allow=("*.safetensors",))
    by_hand = select(listing(*paths), chosen_by_hand, remote_code=False, in_mistrals_format=True)
    assert [file.path for file in by_hand.files] == [
        "consolidated.safetensors",
        "model-00001-of-00001.safetensors",
    ]


def test_code_is_selected_with_trust_remote_code() -> None:
    assert chosen("model.safetensors", "modeling_own.py", code=True)[0] == [
        "model.safetensors",
        "modeling_own.py",
    ]


def test_pickle_is_refused_unless_allowed() -> None:
    with pytest.raises(Unresolvable, match="only as pickle, which can run code") as refused:
        chosen("config.json", "pytorch_model.bin")
    assert "allow_pickle: true" in refused.value.hint
    assert chosen("config.json", "pytorch_model.bin", files=Files(allow_pickle=True))[0] == [
        "config.json",
        "pytorch_model.bin",
    ]


def test_patterns_decide_everything_except_pickle() -> None:
    paths = ("a/model.safetensors", "config.json", "model.bin", "model.safetensors", "notes.md")
    assert chosen(*paths, files=Files(allow=("*.safetensors", "*.md", "*.bin"), ignore=("a/*",))) == (
        ["model.safetensors", "notes.md"],
        {"in files.ignore": 1, "not in files.allow": 1, "pickle (files.allow_pickle is false)": 1},
    )


@pytest.mark.parametrize("paths", [(), ("config.json", "README.md")])
def test_repository_without_weights_is_refused(paths: tuple[str, ...]) -> None:
    with pytest.raises(
        Unresolvable, match=f"org/m at cccccccc: none of the {len(paths)} files are selected as weights"
    ):
        chosen(*paths)


def test_shards_of_an_index_that_stays_behind_are_not_required() -> None:
    weights = WeightsSpec(files=listing("pytorch_model.bin").files, left_out=())
    require_shards(weights, ["model-1.safetensors"], Files(ignore=(INDEX,), allow_pickle=True))


def test_every_shard_of_the_index_is_required() -> None:
    weights = WeightsSpec(files=listing("model-1.safetensors", INDEX).files, left_out=())
    require_shards(weights, ["model-1.safetensors"], Files())
    with pytest.raises(Unresolvable, match=r"lists 2 files, 1 are missing: model-2\.safetensors") as refused:
        require_shards(weights, ["model-1.safetensors", "model-2.safetensors"], Files())
    assert "the repository does not have it" in refused.value.hint
    with pytest.raises(Unresolvable) as refused:
        require_shards(weights, ["model-2.safetensors"], Files(ignore=("*2*",)))
    assert "a pattern of `files` excludes it" in refused.value.hint


def test_selection_is_named_by_its_files() -> None:
    one, other = (
        select(listing("model.safetensors", *more), Files(), remote_code=False) for more in ((), ("a.json",))
    )
    assert len(one.selection) == 8
    assert one.selection != other.selection
    assert one.size == 10
