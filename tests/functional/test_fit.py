"""`lmi fit`: memory, verdict and exit code, for a model on the Hub, in a folder, in a bucket, of a recipe."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lmi_deploy.domain.byte_units import GIB
from lmi_deploy.domain.gathered_facts import Machine
from lmi_deploy.sizing.architecture import read_architecture
from lmi_deploy.sizing.synthesized_tensors import tensors_of
from lmi_deploy.sources.local_folder import LocalModel
from lmi_deploy.sources.s3_prefix import S3Models
from lmi_deploy.weights.manifests import read_manifest
from lmi_deploy.workflows.dependencies import Dependencies
from tests.support.local_app import LocalApp
from tests.support.model_shapes import LLAMA_8B, LLAMA_70B, T5_XL, Table

LARGE: Table = {**LLAMA_8B, "max_position_embeddings": 8192}
RECIPE = """\
name: large
model_id: ./model
engine: vllm
instance_type: ml.g5.2xlarge
"""


OLD_IMAGE = "container: {version: 0.36.0-lmi26}\n"
"""Before its vLLM left out Turing."""


class Places(LocalApp):
    """As the real composition: a path is a folder, an s3:// address a prefix, anything else a model on the
    Hub."""

    def deps(self) -> Dependencies:
        models = S3Models(
            lambda bucket: self.store, read_manifest, cache=self.root / "cache", clock=self.clock
        )

        def source(model_id: str) -> Any:
            if model_id.startswith("s3://"):
                return models
            return LocalModel() if model_id.startswith(("/", "./", "../", "~")) else self.hub

        return replace(super().deps(), hub=source)


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Places]:
    monkeypatch.chdir(tmp_path)
    app = Places(tmp_path)
    yield app
    app.servers.close()


def header(table: Table) -> tuple[bytes, int]:
    """The first bytes of a safetensors file with the tensors of a model, and the size of the file."""
    tensors, at = {}, 0
    for tensor in tensors_of(read_architecture(table), None):
        size = 2 * tensor.items
        tensors[tensor.name] = {"dtype": "BF16", "shape": tensor.shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(tensors).encode()
    return len(text).to_bytes(8, "little") + text, 8 + len(text) + at


def write_folder(path: Path, table: Table) -> None:
    """A model without its weights: sparse files with the real sizes."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(table))
    first, size = header(table)
    with (path / "model.safetensors").open("wb") as file:
        file.write(first)
        file.truncate(size)


def test_fit_judges_a_folder_without_reading_its_weights(app: Places) -> None:
    write_folder(Path("model"), LARGE)
    result = app.lmi("fit", "model", "--instance", "ml.g5.2xlarge", "--json")
    assert result.code == 0, result.err
    found = result.result
    assert (found["verdict"], found["degree"], found["context"]) == ("fits", 1, 8192)
    assert found["parts"]["weights"] == pytest.approx(8_030_261_248 * 2, rel=0.001)
    assert found["kv_tokens"] > found["max_context"] == 8192
    assert found["max_sequences"] == found["kv_tokens"] // 8192
    assert found["remedies"] == []


def test_model_that_does_not_fit_ends_with_2_and_remedies(app: Places) -> None:
    write_folder(Path("model"), LLAMA_70B)
    argv = ("fit", "./model", "--instance", "ml.g6e.12xlarge")
    result = app.lmi(*argv)
    assert result.code == 2
    assert "does-not-fit: the sequences take 10.0 GiB of KV cache on one device, 7." in result.out
    assert (
        "changes that would make it fit, cheapest first:\n  - shorter sequences: max_model_len " in result.out
    )
    shorter = next(r for r in app.lmi(*argv, "--json").result["remedies"] if r["key"] == "max_model_len")
    assert app.lmi(*argv, "--context", shorter["value"]).code == 0
    assert app.lmi(*argv, "--option", "kv_cache_dtype=fp8").code == 0


def test_fit_shows_what_must_fit_beside_the_engine(app: Places) -> None:
    write_folder(Path("model"), LARGE)
    argv = ("fit", "./model", "--instance", "ml.g6.12xlarge", "--option", "max_num_seqs=256")
    shown = app.lmi(*argv).out
    assert (
        "  not available to the engine         1.76 GiB\n  - context, NCCL, graphs: about      1.56 GiB\n"
        in shown
    )
    found = app.lmi(*argv, "--json").result
    assert found["verdict"] == "tight"
    assert 0 < found["reserve"] < found["outside"] == found["usable"] - found["budget"]


def test_gpu_without_bfloat16_does_not_fit_a_bfloat16_model(app: Places) -> None:
    write_folder(Path("model"), LARGE)
    argv = ("fit", "./model", "--gpu", "T4", "--gpus", "4", "--degree", "4", "--context", "2048")
    result = app.lmi(*argv, "--option", "dtype=bf16")
    assert result.code == 2
    assert "does-not-fit: dtype bf16 needs compute capability 8.0 in vLLM" in result.out
    assert "  - fp16 in place of bf16: dtype fp16" in result.out
    assert app.lmi(*argv, "--option", "dtype=fp16").code == 0


def test_llama_70b_does_not_fit_one_small_gpu(app: Places) -> None:
    write_folder(Path("model"), LLAMA_70B)
    result = app.lmi("fit", "./model", "--gpu", "A10G")
    assert result.code == 2
    assert "weights and buffers take 132." in result.out
    assert "the engine may use only 20.2 GiB" in result.out


def test_verdict_tight_ends_with_0(app: Places) -> None:
    write_folder(Path("model"), LARGE)
    argv = ("fit", "./model", "--gpu", "A10G", "--context", "1024", "--json")
    most = app.lmi(*argv).result["max_sequences"]
    result = app.lmi(*argv, "--sequences", str(most))
    assert (result.code, result.result["verdict"]) == (0, "tight")
    assert app.lmi(*argv, "--sequences", str(most + 1)).code == 2


def test_fit_uses_gpu_count_and_degree(app: Places) -> None:
    write_folder(Path("model"), LLAMA_70B)
    argv = ("fit", "./model", "--gpu", "H100", "--gpus", "4", "--context", "8192")
    assert app.lmi(*argv, "--json").result["degree"] == 4
    result = app.lmi(*argv, "--degree", "3")
    assert result.code == 2
    assert "degree 3 does not divide the 64 attention heads; use 2" in result.out


def test_fit_of_a_recipe_uses_its_settings_and_overrides(app: Places) -> None:
    write_folder(Path("sub/model"), LARGE)
    Path("sub/large.yaml").write_text(RECIPE)
    result = app.lmi("fit", "sub/large.yaml", "--json")
    assert (result.code, result.result["instance"]) == (0, "ml.g5.2xlarge")
    longer = app.lmi("fit", "sub/large.yaml", "--set", "options.max_model_len=65536")
    assert longer.code == 2
    assert "1 sequence of 65536" in longer.out
    assert app.lmi("fit", "sub/large.yaml", "--set", "options.max_model_len=65536", "--gpu", "H100").code == 0


def test_smallest_of_several_instance_types_decides(app: Places) -> None:
    write_folder(Path("model"), LARGE)
    types = RECIPE.replace("ml.g5.2xlarge", "[ml.g5.2xlarge, ml.g4dn.xlarge]")
    Path("large.yaml").write_text(types + OLD_IMAGE)
    result = app.lmi("fit", "large.yaml", "--json")
    assert (result.code, result.result["instance"]) == (2, "ml.g4dn.xlarge")
    Path("large.yaml").write_text(types)
    refused = app.lmi("fit", "large.yaml")
    assert refused.code == 2
    assert "ml.g4dn.xlarge has NVIDIA T4, of compute capability 7.5, and the vLLM of the image" in refused.err


def test_local_recipe_is_compared_with_the_memory_of_this_machine(app: Places) -> None:
    write_folder(Path("model"), LARGE)
    text = "name: here\nmodel_id: ./model\nengine: accelerate\nendpoint: {target: local}\n"
    Path("here.yaml").write_text(text)
    result = app.lmi("fit", "here.yaml", "--json")
    assert (result.code, result.result["device"], result.result["usable"]) == (2, "CPU", 8_000_000_000)


def test_options_are_checked_against_the_gpu_of_this_machine(app: Places) -> None:
    app.machine = Machine(
        memory=64 * GIB, cores=8, accelerators=(("Tesla T4", 15360 * 2**20),), compute_capability=7.5
    )
    write_folder(Path("model"), {**LARGE, "num_hidden_layers": 8})
    recipe = "name: here\nmodel_id: ./model\nengine: vllm\nendpoint: {target: local}\noptions: {%s}\n"
    Path("here.yaml").write_text(recipe % "dtype: bf16")
    result = app.lmi("validate", "here.yaml")
    assert result.code == 2
    assert (
        "here.yaml:5:11: options.dtype: bf16 needs compute capability 8.0, but the Tesla T4 of this"
        in result.err
    )
    Path("here.yaml").write_text(recipe % "quantize: fp8, max_model_len: 2048")
    assert "the Tesla T4 of this machine cannot compute in fp8" in app.lmi("validate", "here.yaml").err


def test_validate_checks_that_a_local_folder_fits(app: Places) -> None:
    write_folder(Path("sub/model"), LARGE)
    Path("sub/large.yaml").write_text(RECIPE)
    result = app.lmi("validate", "sub/large.yaml")
    assert (result.code, result.out) == (0, "sub/large.yaml: valid, fit: fits\n"), result.err
    Path("sub/large.yaml").write_text(
        RECIPE.replace("ml.g5.2xlarge", "ml.g4dn.xlarge")
        + "options:\n  max_model_len: 16384\n  quantize: awq\n"
        + OLD_IMAGE
    )
    result = app.lmi("validate", "sub/large.yaml")
    assert result.code == 2
    assert "sub/large.yaml:4:1: instance_type: ./model does not fit on ml.g4dn.xlarge: " in result.err
    assert (
        "sub/large.yaml:6:3: options.max_model_len: 16384 is more than the model's maximum length, 8192"
        in result.err
    )
    assert "sub/large.yaml:7:3: options.quantize: awq needs quantized weights" in result.err


def test_validate_reports_when_it_cannot_tell_the_fit(app: Places) -> None:
    Path("model").mkdir()
    Path("model/notes.txt").write_text("nothing")
    Path("large.yaml").write_text(RECIPE)
    result = app.lmi("validate", "large.yaml", "--json")
    assert (result.code, result.result["fit"]) == (0, {"large.yaml": "unknown"})
    assert (
        "lmi cannot compute whether the model fits: config.json is missing"
        in app.lmi("validate", "large.yaml").err
    )
    Path("model/notes.txt").unlink()
    Path("model").rmdir()
    result = app.lmi("validate", "large.yaml")
    assert (result.code, result.out) == (2, "")
    assert "large.yaml:2:1: model_id: ./model: there is no such folder" in result.err


def test_validate_reads_the_hub_only_with_the_hub_option(app: Places) -> None:
    first, size = header(LARGE)
    app.hub.models["org/large"] = {"config.json": json.dumps(LARGE).encode(), "model.safetensors": b""}
    app.hub.models["org/draft"] = {"config.json": json.dumps({**LARGE, "vocab_size": 32000}).encode()}
    read: list[int] = []
    app.hub = _Sparse(app, first, size, read).hub
    text = RECIPE.replace("./model", "org/large")
    Path("large.yaml").write_text(text)
    assert app.lmi("validate", "large.yaml").out == "large.yaml: valid\n"
    assert read == []
    assert app.lmi("validate", "large.yaml", "--hub").out == "large.yaml: valid, fit: fits\n"
    draft = 'options: {speculative_config: \'{"model": "org/draft", "num_speculative_tokens": 3}\'}\n'
    Path("large.yaml").write_text(text + draft)
    result = app.lmi("validate", "large.yaml", "--hub")
    assert result.code == 2
    assert "org/draft has a vocabulary of 32000 tokens, but the model has 128256" in result.err
    Path("large.yaml").write_text(text.replace("org/large", "org/absent"))
    result = app.lmi("validate", "large.yaml", "--hub")
    assert result.code == 2
    assert "large.yaml:2:1: model_id: " in result.err


def test_instance_type_auto_chooses_the_cheapest_that_fits(app: Places) -> None:
    write_folder(Path("model"), LARGE)
    Path("large.yaml").write_text(RECIPE.replace("ml.g5.2xlarge", "auto"))
    result = app.lmi("validate", "large.yaml")
    assert (result.code, result.out) == (0, "large.yaml: valid, fit: fits\n"), result.err
    prices = {
        row["instance"]: row["usd_per_hour"]
        for row in app.lmi("instances", "--fits", "./model", "--context", "8192", "--json").lines
        if row.get("usd_per_hour") and row["verdict"] == "fits"
    }
    cheapest = min(prices, key=lambda name: prices[name])
    assert f"instance_type auto: {cheapest}, {prices[cheapest]:.2f} USD per hour in us-east-1" in result.err
    found = app.lmi("fit", "large.yaml", "--json").result
    assert (found["verdict"], found["instance"]) == ("fits", cheapest)
    write_folder(Path("model"), {**LLAMA_70B, "intermediate_size": 16 * LLAMA_70B["intermediate_size"]})
    assert app.lmi("fit", "large.yaml", "--json").code == 1
    result = app.lmi("validate", "large.yaml")
    assert result.code == 2
    assert "instance_type: auto: no type with a known price in us-east-1 holds ./model" in result.err


def test_fit_of_a_hub_model_reads_only_its_headers(app: Places) -> None:
    first, size = header(LARGE)
    read: list[int] = []
    app.hub.models["org/large"] = {"config.json": json.dumps(LARGE).encode(), "model.safetensors": b""}
    app.hub = _Sparse(app, first, size, read).hub
    result = app.lmi("fit", "org/large", "--instance", "ml.g5.2xlarge", "--json")
    assert result.code == 0, result.err
    assert sum(read) < 200_000
    assert app.hub.cached == set()


class _Sparse:
    """A Hub whose one large file has a header and no data."""

    def __init__(self, app: LocalApp, first: bytes, size: int, read: list[int]) -> None:
        self.hub = app.hub
        listing, response = app.hub.listing, app.hub.read

        def listed(model_id: str, revision: str) -> Any:
            found = listing(model_id, revision)
            files = tuple(
                replace(one, size=size) if one.path == "model.safetensors" else one for one in found.files
            )
            return replace(found, files=files)

        def part(
            listing: Any, path: str, *, start: int = 0, length: int | None = None, refresh: bool = False
        ) -> bytes:
            content = first[start : start + (length or 0)] if path == "model.safetensors" else None
            content = response(listing, path, start=start, length=length) if content is None else content
            read.append(len(content))
            return content

        self.hub.listing = listed  # type: ignore[method-assign]
        self.hub.read = part  # type: ignore[method-assign]


def test_fit_of_an_s3_prefix_reads_ranges_and_hashes_nothing(app: Places) -> None:
    small = {
        **LLAMA_8B,
        "num_hidden_layers": 1,
        "hidden_size": 64,
        "intermediate_size": 64,
        "vocab_size": 128,
    }
    first, size = header({**small, "head_dim": 2})
    app.store.objects |= {
        "models/small/config.json": json.dumps({**small, "head_dim": 2}).encode(),
        "models/small/model.safetensors": first + bytes(size - len(first)),
    }
    result = app.lmi("fit", "s3://fake/models/small", "--gpu", "T4", "--json")
    assert (result.code, result.result["verdict"]) == (0, "fits"), result.err
    assert not (app.root / "cache").exists()


def _cut(path: Path) -> None:
    with (path / "model.safetensors").open("r+b") as file:
        file.truncate(1_000_000)


def _not_json(path: Path) -> None:
    (path / "config.json").write_text("{")


def _no_config(path: Path) -> None:
    (path / "config.json").unlink()


def _unknown_family(path: Path) -> None:
    (path / "config.json").write_text(json.dumps({**LARGE, "model_type": "tomorrow"}))


def _missing_shard(path: Path) -> None:
    index = {"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}
    (path / "model.safetensors.index.json").write_text(json.dumps(index))


def _pointer(path: Path) -> None:
    (path / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")


def _gguf(path: Path) -> None:
    (path / "model.safetensors").rename(path / "model.gguf")


def _adapter(path: Path) -> None:
    (path / "config.json").unlink()
    (path / "adapter_config.json").write_text('{"base_model_name_or_path": "org/base"}')


@pytest.mark.parametrize(
    ("damage", "missing"),
    [
        (_cut, "model.safetensors: tensors need "),
        (_not_json, "config.json is not JSON"),
        (_no_config, "config.json is missing"),
        (_unknown_family, "model_type tomorrow"),
        (_missing_shard, "lists 2 files, 1 are missing: model-2.safetensors"),
        (_pointer, "a Git LFS pointer"),
        (_gguf, "GGUF"),
        (_adapter, "run `lmi fit` for its base model org/base"),
    ],
)
def test_unknown_fit_ends_with_1_and_names_what_is_missing(
    app: Places, damage: Callable[[Path], None], missing: str
) -> None:
    write_folder(Path("model"), LARGE)
    damage(Path("model"))
    result = app.lmi("fit", "./model", "--gpu", "H100")
    assert result.code == 1
    assert "unknown: " in result.out
    assert missing in result.out


@pytest.mark.parametrize(
    ("flags", "missing"),
    [
        ((), "`lmi instances --fits MODEL` lists the types that hold it"),
        (("--gpu", "A100"), "A100-40GB and A100-80GB"),
        (("--gpu", "Voodoo2"), "lmi knows T4, L4"),
        (("--instance", "ml.g5.3xlarge"), "no instance type ml.g5.3xlarge"),
        (("--gpu", "L4", "--version", "banana"), "does not know its vLLM version"),
        (("--gpu", "L4", "--option", "gpu_memory_utilization=7"), "not between"),
        (("--gpu", "L4", "--engine", "neuronx"), "needs NeuronCores"),
    ],
)
def test_fit_without_a_device_ends_with_1(app: Places, flags: tuple[str, ...], missing: str) -> None:
    write_folder(Path("model"), LARGE)
    result = app.lmi("fit", "./model", *flags)
    assert result.code == 1
    assert missing in result.out


@pytest.mark.parametrize(
    "flags",
    [("--gpu", "L4", "--instance", "ml.g5.2xlarge"), ("--option", "novalue"), ("--set", "name=x")],
)
def test_contradictory_options_are_refused(app: Places, flags: tuple[str, ...]) -> None:
    write_folder(Path("model"), LARGE)
    result = app.lmi("fit", "./model", *flags)
    assert (result.code, result.out) == (2, "")
    assert "next: " in result.err


def test_duplicate_weight_files_are_not_counted(app: Places) -> None:
    write_folder(Path("model"), LARGE)
    before = app.lmi("fit", "./model", "--gpu", "L4", "--json").result["parts"]
    first, size = header(LARGE)
    for name in ("consolidated.safetensors", "adapter_model.safetensors"):
        with Path("model", name).open("wb") as file:
            file.write(first)
            file.truncate(size)
    assert app.lmi("fit", "./model", "--gpu", "L4", "--json").result["parts"] == before


def test_config_json_alone_gives_an_estimate_with_a_note(app: Places) -> None:
    Path("model").mkdir()
    Path("model/config.json").write_text(json.dumps(LARGE))
    result = app.lmi("fit", "./model", "--gpu", "L4")
    assert result.code == 0
    assert "note: the weights are estimated from config.json" in result.out


def test_pickle_weights_are_counted_by_file_size(app: Places) -> None:
    Path("model").mkdir()
    Path("model/config.json").write_text(json.dumps(LARGE))
    with Path("model/pytorch_model.bin").open("wb") as file:
        file.truncate(16_060_522_496)
    found = app.lmi("fit", "./model", "--instance", "ml.g5.xlarge", "--json").result
    assert found["parts"]["weights"] == pytest.approx(16_060_522_496, rel=0.001)
    assert any("reads the largest pickle file completely" in note for note in found["notes"])


WIDE: Table = {
    **LARGE,
    "num_hidden_layers": 1,
    "hidden_size": 64,
    "intermediate_size": 64,
    "vocab_size": 128,
    "num_attention_heads": 2048,
    "num_key_value_heads": 2048,
}
"""Few bytes to read and hash, but larger buffers than the 8 GB of the machine."""
CLOUDLESS = """\
name: large
model_id: ./model
engine: accelerate
endpoint: {target: local}
"""


@pytest.mark.parametrize("command", [("plan",), ("up", "--yes")])
def test_model_that_does_not_fit_is_refused_before_any_download(
    app: Places, command: tuple[str, ...]
) -> None:
    write_folder(Path("model"), WIDE)
    Path("large.yaml").write_text(CLOUDLESS)
    result = app.lmi(*command)
    assert (result.code, result.out) == (2, "")
    assert "error: ./model does not fit on CPU: weights and buffers take 10." in result.err
    assert "--force-fit" in result.err
    assert app.artifacts_left() == []


def test_force_fit_continues_and_reports_the_verdict(app: Places) -> None:
    write_folder(Path("model"), WIDE)
    Path("large.yaml").write_text(CLOUDLESS)
    result = app.lmi("plan", "--force-fit")
    assert result.code == 0, result.err
    assert "fit: does not fit: weights and buffers take 10." in result.out
    assert app.lmi("plan", "--force-fit", "--json").result["figures"]["fit"].startswith("does not fit: ")


def test_plan_reports_that_the_model_fits(app: Places) -> None:
    write_folder(Path("model"), {**WIDE, "num_attention_heads": 64, "num_key_value_heads": 64})
    Path("large.yaml").write_text(CLOUDLESS)
    result = app.lmi("plan")
    assert result.code == 0, result.err
    assert "fit: fits" in result.out


def test_fit_of_a_class_that_vllm_does_not_have_ends_with_2(app: Places) -> None:
    write_folder(
        Path("model"),
        {
            "model_type": "t5",
            **T5_XL,
            "architectures": ["T5ForConditionalGeneration"],
            "is_encoder_decoder": True,
        },
    )
    result = app.lmi("fit", "./model", "--instance", "ml.g5.xlarge", "--context", "512")
    assert result.code == 2
    assert (
        "does-not-fit: vLLM 0.28.0 does not support T5ForConditionalGeneration, an encoder-decoder; use engine: accel"
        in result.out
    )
    assert (
        app.lmi(
            "fit", "./model", "--instance", "ml.g5.xlarge", "--context", "512", "--engine", "accelerate"
        ).code
        == 0
    )
    Path("large.yaml").write_text(RECIPE)
    assert app.lmi("validate", "large.yaml").err.count("T5ForConditionalGeneration") == 1


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("adapter_config.json", "./model is an adapter: it has adapter_config.json, but no config.json"),
        ("model.gguf", "./model is a model in GGUF: it has only *.gguf files"),
    ],
)
def test_validate_refuses_an_adapter_and_gguf_files(app: Places, name: str, what: str) -> None:
    Path("model").mkdir()
    (Path("model") / name).write_text("{}")
    Path("large.yaml").write_text(RECIPE)
    result = app.lmi("validate", "large.yaml")
    assert result.code == 2
    assert f"large.yaml:2:1: model_id: {what}" in result.err


def test_init_names_damaged_headers_and_asks_for_an_instance(app: Places) -> None:
    write_folder(Path("model"), LARGE)
    for file in Path("model").glob("*.safetensors"):
        file.write_bytes(b"\xff" * 40)
    result = app.lmi("init", "./model", "--target", "sagemaker")
    assert result.code == 2
    assert "lmi cannot choose an instance type: model" in result.err
    assert "safetensors: header length" in result.err
    assert app.lmi("init", "./model", "--target", "sagemaker", "--instance", "ml.g5.xlarge").code == 0
