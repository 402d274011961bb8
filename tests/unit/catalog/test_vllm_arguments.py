"""The tables of vLLM, and the script that reads them from a wheel."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from lmi_deploy.catalog import images, options, vllm_arguments
from lmi_deploy.catalog.server_version import FAMILIES
from lmi_deploy.engines.registry import ENGINES
from tools.generate_vllm import IMAGES
from tools.vllm_arguments import arguments
from tools.vllm_facts import architectures, backends, parsers, quantization, uses_transformers
from tools.vllm_option_fields import fields
from tools.vllm_sources import Sources

SOURCES = {
    "vllm/config/__init__.py": "from .cache import CacheConfig\nfrom .top import TopConfig\n",
    "vllm/config/cache.py": """
from typing import Literal, TYPE_CHECKING
from pydantic import Field
Dtype = Literal["auto", "fp8"]
@config
class CacheConfig:
    cache_dtype: Dtype = "auto"
    share: float = Field(default=0.9, gt=0, le=1)
    slots: int = 4
    most: int | None = Field(default=None, ge=-1)
    on: bool | None = None
    method: Dtype | str | None = None
    def check(self):
        if self.slots < 1:
            raise ValueError
        if self.on:
            if self.slots > 8:
                raise ValueError
""",
    "vllm/config/top.py": """
from .cache import CacheConfig
@config
class TopConfig:
    nested: CacheConfig = Field(default_factory=CacheConfig)
    table: dict[str, int] = field(default_factory=dict)
""",
    "vllm/config/draft.py": """
from enum import Enum
from typing import Any, ClassVar, Literal
from pydantic import Field, SkipValidation, field_validator
from .cache import CacheConfig
class Mode(Enum):
    FULL = (1, 2)
    NONE = 0
class Shape(str, Enum):
    ROUND = "round"
Role = Literal["one", "two"]
@config
class Base:
    port: int = 1
@config
class DraftConfig(Base):
    count: int | None = Field(default=None, ge=1)
    role: Role | None = None
    mode: Mode = Mode.NONE
    shape: Shape = Shape.ROUND
    cache: CacheConfig | None = None
    loose: CacheConfig | dict | None = None
    either: bool | str = False
    name: str = ""
    sizes: list[int] = None
    extra: dict[str, Any] = None
    target_model_config: SkipValidation[CacheConfig] = None
    seen: int = field(default=0, init=False)
    kind: ClassVar[str] = ""
    @field_validator("mode", mode="before")
    def _mode(cls, value):
        return value
""",
    "vllm/config/vllm.py": """
from .draft import DraftConfig
@config
class VllmConfig:
    speculative_config: DraftConfig | None = None
    kv_transfer_config: DraftConfig | None = None
""",
    "vllm/engine/arg_utils.py": """
from vllm.config import CacheConfig, TopConfig
from vllm.utils import human_readable_int
class EngineArgs:
    kv_dtype: str = CacheConfig.cache_dtype
    share: float = CacheConfig.share
    slots: int = CacheConfig.slots
    max_model_len: int | None = None
    on: bool | None = None
    method: str | None = None
    nested: CacheConfig | None = None
    table: dict = None
    level: int = 1
    old: str = ""
    forgotten: int = 1
    _own: int = 1
    def add_cli_args(parser):
        cache_kwargs = get_kwargs(CacheConfig)
        top_kwargs = get_kwargs(TopConfig)
        group = parser.add_argument_group("x")
        group.add_argument("--kv-dtype", **cache_kwargs["cache_dtype"])
        group.add_argument("--share", **cache_kwargs["share"])
        group.add_argument("--slots", **{**cache_kwargs["slots"], "default": 2})
        group.add_argument("--max-model-len", **cache_kwargs["most"])
        group.add_argument("--on", **cache_kwargs["on"])
        group.add_argument("--method", **cache_kwargs["method"])
        group.add_argument("--nested", "-n", **top_kwargs["nested"])
        group.add_argument("--table", **top_kwargs["table"])
        group.add_argument("--level", type=int, choices=[1, 2])
        group.add_argument("--old", type=nullable_str)
""",
    "vllm/model_executor/models/registry.py": """
_TEXT_GENERATION_MODELS = {"LlamaForCausalLM": ("llama", "LlamaForCausalLM")}
_SPECULATIVE_DECODING_MODELS = {"EagleModel": ("e", "E")}
_TRANSFORMERS_BACKEND_MODELS = {"TransformersForCausalLM": ("t", "T")}
_VLLM_MODELS = {**_TEXT_GENERATION_MODELS}
""",
    "vllm/model_executor/layers/quantization/__init__.py": """
def get_quantization_config(name):
    from .awq import AWQConfig
    return {"awq": AWQConfig, "awq_marlin": AWQConfig}[name]
""",
    "vllm/model_executor/layers/quantization/awq.py": """
import torch
class Base:
    def get_min_capability(cls):
        return 75
class AWQConfig(Base):
    def get_supported_act_dtypes(self):
        return [torch.half]
""",
    "vllm/v1/attention/backends/registry.py": """
from enum import Enum
class AttentionBackendEnum(Enum):
    FLASH = "vllm.v1.attention.backends.flash.Flash"
    OTHER = "vllm.v1.attention.backends.flash.Other"
    NONE = ""
""",
    "vllm/v1/attention/backends/flash.py": """
class Flash:
    def supports_compute_capability(cls, capability):
        return capability >= DeviceCapability(8, 0)
class Other:
    def supports_compute_capability(cls, capability):
        return capability.major in [9, 10]
""",
    "vllm/reasoning/one.py": "@ReasoningParserManager.register_module('one')\nclass One: pass\n",
    "vllm/reasoning/__init__.py": "_REASONING_PARSERS_TO_REGISTER = {'two': ('a', 'b')}\n",
}


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    wheel = tmp_path / "vllm-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in SOURCES.items():
            archive.writestr(path, text)
        archive.writestr("other/module.py", "not python (")
    return Sources.of_wheel(wheel)


def test_arguments_are_read_from_vllm_sources(sources: Sources) -> None:
    assert arguments(sources) == {
        "kv_dtype": {"kind": "choice", "values": ["auto", "fp8"]},
        "share": {"kind": "float", "gt": 0, "le": 1},
        "slots": {"kind": "int", "ge": 1},
        "max_model_len": {"kind": "size", "ge": -1},
        "on": {"kind": "flag"},
        "method": {"kind": "choice", "values": ["auto", "fp8"], "open": True},
        "nested": {"kind": "json"},
        "table": {"kind": "json"},
        "level": {"kind": "choice", "values": ["1", "2"]},
        "old": {"kind": "text"},
    }


def test_fields_of_json_options_are_read_from_the_config_classes(sources: Sources) -> None:
    found = fields(sources, ["speculative_config", "unknown"])
    assert {path.removeprefix("speculative_config."): rule for path, rule in found.items()} == {
        "port": {"kind": "int"},
        "count": {"kind": "int", "ge": 1},
        "role": {"kind": "choice", "values": ["one", "two"]},
        "mode": {"kind": "name", "values": ["FULL", "NONE"]},
        "shape": {"kind": "choice", "values": ["round"]},
        "cache": {"kind": "json"},
        "cache.cache_dtype": {"kind": "choice", "values": ["auto", "fp8"]},
        "cache.share": {"kind": "float", "gt": 0, "le": 1},
        "cache.slots": {"kind": "int"},
        "cache.most": {"kind": "int", "ge": -1},
        "cache.on": {"kind": "flag"},
        "cache.method": {"kind": "choice", "values": ["auto", "fp8"], "open": True},
        "loose": {"kind": "any"},
        "either": {"kind": "any"},
        "name": {"kind": "text"},
        "sizes": {"kind": "list"},
        "extra": {"kind": "json"},
    }


def test_supported_features_are_read_from_vllm_registries(sources: Sources) -> None:
    assert architectures(sources) == ["LlamaForCausalLM"]
    assert uses_transformers(sources)
    assert quantization(sources) == {method: [75, ["float16"]] for method in ("awq", "awq_marlin")}
    assert backends(sources) == {"FLASH": [80, 999], "OTHER": [90, 109]}
    assert parsers(sources, "reasoning_parser") == ["one", "two"]


def test_table_has_every_image_of_the_script() -> None:
    assert {image: vllm_arguments.version(image) for image in vllm_arguments.images()} == IMAGES


def test_table_has_every_published_image_up_to_its_newest() -> None:
    published = {
        int(tag.partition("-lmi")[2].split(".")[0]) for tag in images.tags("djl-inference") if "-lmi" in tag
    }
    assert {image for image in published if image <= vllm_arguments.images()[-1]} <= set(
        vllm_arguments.images()
    )


def test_families_are_those_of_the_engines() -> None:
    assert {name: module.family for name, module in ENGINES.items()} == FAMILIES


@pytest.mark.parametrize(
    ("name", "images_of_it"),
    [
        ("swap_space", [(10, 23)]),
        ("max_num_seqs", [(10, None)]),
        ("attention_backend", [(19, None)]),
    ],
)
def test_argument_lists_the_images_that_know_it(
    name: str, images_of_it: list[tuple[int, int | None]]
) -> None:
    assert vllm_arguments.argument_spans()[name] == images_of_it


def test_unknown_newer_image_counts_as_the_newest_known() -> None:
    assert vllm_arguments.version(99) == vllm_arguments.version(29) == "0.28.0"
    assert vllm_arguments.argument("max_num_seqs", 99) == vllm_arguments.argument("max_num_seqs", 28)
    assert vllm_arguments.number(28) == (0, 26)


def test_architectures_depend_on_the_image() -> None:
    assert vllm_arguments.architecture_known("LlamaForCausalLM", 10)
    assert not vllm_arguments.architecture_known("T5ForConditionalGeneration", 28)
    assert vllm_arguments.architecture_images("PersimmonForCausalLM") == [(11, 28)]
    assert vllm_arguments.architecture_images("T5ForConditionalGeneration") == []
    assert not vllm_arguments.runs_transformers(14)
    assert vllm_arguments.runs_transformers(15)


def test_device_requirements_of_methods_are_known() -> None:
    assert vllm_arguments.quantization_support("awq", 20) == (7.5, ("float16",))
    assert vllm_arguments.quantization_support("fp_quant", 28) == (10.0, ("bfloat16",))
    assert vllm_arguments.quantization_support("no_such_method", 28) is None
    assert vllm_arguments.backend_support("FLASHINFER", 27) == (7.5, 12.1)
    assert vllm_arguments.backend_support("TRITON_ATTN", 27) is None


def test_vllm_options_have_a_server_version() -> None:
    assert options.option_status("vllm", "max_num_scheduled_tokens", "0.36.0/lmi28").state == "known"
    assert options.option_status("vllm", "swap_space", "0.35.0").state == "known"
    assert options.option_status("vllm", "swap_space", "0.36.0/lmi28").state == "removed"
    assert options.option_status("vllm", "speculative_config", "0.32.0").edge == "0.33.0"
    assert options.option_status("vllm", "seed", "0.31.0").state == "later"
