"""Files of a stand-in model: the model's own, with config.json cut and weights of random values."""

from __future__ import annotations

import json
from pathlib import Path

from lmi_deploy.domain.gathered_facts import FileEntry, ModelListing
from lmi_deploy.domain.rehearsal_report import StandInModel
from lmi_deploy.domain.safetensors import LENGTH_BYTES, parameters
from lmi_deploy.planning.stand_in_model import stand_in_model, tokenizer_files
from lmi_deploy.sources.stand_in_folder import StandInSource, write_stand_in
from tests.support.model_shapes import LLAMA_8B

TOKENS = 259
"""256 bytes and three marks."""


def files(**sizes: int) -> tuple[FileEntry, ...]:
    named = {path.replace("__", "-").replace("_DOT_", "."): size for path, size in sizes.items()}
    return tuple(FileEntry(path=path, size=size, oid="0" * 64, kind="sha256") for path, size in named.items())


SHARDED = files(
    config_DOT_json=700,
    model__1_DOT_safetensors=9_000_000_000,
    model__2_DOT_safetensors=7_000_000_000,
    tokenizer_DOT_json=9_000_000,
    generation_config_DOT_json=200,
)
BARE = files(config_DOT_json=700, model_DOT_safetensors=9_000_000_000)


def made(
    entries: tuple[FileEntry, ...],
    *,
    degree: int = 1,
    quantized: bool = True,
    names: tuple[str, ...] = ("model.embed_tokens.weight",),
) -> StandInModel:
    config = {**LLAMA_8B, "quantization_config": {"quant_method": "awq"}}
    return stand_in_model(entries, config, degree=degree, quantized=quantized, names=names)


def test_own_tokenizer_and_vocabulary_are_kept() -> None:
    model = made(SHARDED)
    assert model.own_tokenizer
    assert sorted(entry.path for entry in model.copied) == ["generation_config.json", "tokenizer.json"]
    assert json.loads(model.written["config.json"])["vocab_size"] == LLAMA_8B["vocab_size"]


def test_shards_keep_their_names() -> None:
    model = made(SHARDED)
    assert sorted(model.tensors) == ["model-1.safetensors", "model-2.safetensors"]
    assert all(model.tensors.values())


def test_other_layouts_of_tensors_are_left_to_the_library() -> None:
    model = made(BARE, names=("transformer.wte.weight",))
    assert [[name for name, _, _ in headers] for headers in model.tensors.values()] == [["stand_in.weight"]]


def test_model_without_tokenizer_gets_one_of_bytes() -> None:
    model = made(BARE)
    assert not model.own_tokenizer
    assert json.loads(model.written["config.json"])["vocab_size"] == TOKENS
    vocabulary = json.loads(tokenizer_files()["tokenizer.json"])["model"]["vocab"]
    assert sorted(vocabulary.values()) == list(range(TOKENS))


def test_compiled_model_is_its_own_stand_in() -> None:
    entries = files(config_DOT_json=700, model_DOT_onnx=500_000_000, tokenizer_DOT_json=9_000)
    model = made(entries)
    assert model.copied == entries
    assert not model.written
    assert not model.tensors


def test_quantization_is_left_out_for_an_engine_that_loads_the_weights() -> None:
    assert "quantization_config" in json.loads(made(BARE).written["config.json"])
    assert "quantization_config" not in json.loads(made(BARE, quantized=False).written["config.json"])


def test_marks_and_spaces_do_not_occur_in_greedy_answers() -> None:
    letters = {number: letter for letter, number in vocabulary_of_bytes().items()}
    unlikely = [letters[number] for number in made(BARE).unlikely]
    assert {"<pad>", "<s>", "</s>", "Ġ", "Ċ"} <= {*unlikely}
    assert "a" not in unlikely


def vocabulary_of_bytes() -> dict[str, int]:
    vocabulary: dict[str, int] = json.loads(tokenizer_files()["tokenizer.json"])["model"]["vocab"]
    return vocabulary


def written(folder: Path) -> StandInSource:
    model = made(BARE)
    write_stand_in(folder, model, {})
    return StandInSource(folder)


def test_weights_are_valid_safetensors_and_always_the_same(tmp_path: Path) -> None:
    written(tmp_path / "a"), written(tmp_path / "b")
    first = (tmp_path / "a" / "model.safetensors").read_bytes()
    assert first == (tmp_path / "b" / "model.safetensors").read_bytes()
    end = LENGTH_BYTES + int.from_bytes(first[:LENGTH_BYTES], "little")
    (count,) = parameters(first[LENGTH_BYTES:end], len(first)).values()
    assert count * 2 == len(first) - end


def test_rows_of_unlikely_tokens_are_zeros(tmp_path: Path) -> None:
    written(tmp_path)
    data = (tmp_path / "model.safetensors").read_bytes()
    start = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "little")
    header = json.loads(data[LENGTH_BYTES:start])
    entry = header["model.embed_tokens.weight"]
    size = 2 * entry["shape"][1]
    rows = data[start + entry["data_offsets"][0] : start + entry["data_offsets"][1]]
    assert rows[: 3 * size] == bytes(3 * size)
    assert rows[3 * size : 4 * size].strip(b"\0")


def test_listing_keeps_name_and_commit_of_the_model(tmp_path: Path) -> None:
    source = written(tmp_path)
    real = ModelListing(model_id="org/model", commit="c" * 40, files=BARE)
    listing = source.stand_in_listing(real)
    assert (listing.model_id, listing.commit) == ("org/model", "c" * 40)
    assert {file.path for file in listing.files} >= {"config.json", "model.safetensors", "tokenizer.json"}
    assert json.loads(source.read(listing, "config.json"))["num_hidden_layers"] == 2
