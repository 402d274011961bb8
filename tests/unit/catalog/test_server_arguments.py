"""The arguments of vLLM's and SGLang's own servers: the tables, the scripts that read the wheels, the check of a
recipe."""

from __future__ import annotations

import pytest

from lmi_deploy.catalog import images, server_arguments
from lmi_deploy.catalog.server_version import FAMILIES
from lmi_deploy.errors import RecipeError
from tests.support.recipe_parsing import parse
from tools.generate_server_arguments import vllm_server_arguments
from tools.sglang_arguments import sglang_arguments
from tools.vllm_sources import Sources

ANNOTATED = {
    "sglang/srt/arg_groups/choices.py": 'FORMATS = ["auto", "pt"]\n',
    "sglang/srt/arg_groups/fields/model.py": """
import json
from typing import Dict, List, Literal, Optional, Union
from sglang.srt.arg_groups.choices import FORMATS
class Model:
    load_format: A[str, Arg(help="x", choices=FORMATS)] = "auto"
    tp_size: A[int, Arg(help="x", aliases=["--tensor-parallel-size"])] = 1
    mem_fraction_static: A[Optional[float], "Help."] = None
    enable_metrics: A[bool, Arg(help="x", resolvable=True)] = False
    table: A[Optional[Dict[str, int]], Arg(type_parser=json.loads)] = None
    level: A[Literal["low", "high"], "x"] = "low"
    sizes: A[Optional[List[int]], "x"] = None
    either: A[Union[int, str], "x"] = 1
    paths: A[Optional[List[str]], Arg(action=LoRAPathAction)] = None
    long: A[str, Arg(cli_name="--longer-name")] = ""
    hidden: A[bool, Arg(no_cli=True)] = False
    derived: int = 0
""",
    "sglang/srt/server_args.py": """
class PortArgs:
    port_of_nothing: A[int, "x"] = 1
class ServerArgs:
    @staticmethod
    def add_cli_args(parser):
        names = computed()
        parser.add_argument("--parser", type=str, choices=["auto"] + names)
        parser.add_argument("--old-flag", action=DeprecatedStoreTrueAction)
        parser.add_argument("--old-value", type=int, action=DeprecatedAliasStoreAction)
        parser.add_argument("--model-path", "--model", type=str)
        parser.add_argument("--buckets", type=float, nargs="+")
def elsewhere(parser):
    parser.add_argument("--not-of-the-server")
""",
}


def test_the_arguments_of_sglang_are_its_annotated_fields_and_the_calls_of_its_parser() -> None:
    found = sglang_arguments(Sources(ANNOTATED))

    assert found == {
        "load_format": {"kind": "choice", "values": ["auto", "pt"]},
        "tp_size": {"kind": "int"},
        "tensor_parallel_size": {"kind": "int"},
        "mem_fraction_static": {"kind": "float", "gt": 0, "lt": 1},
        "enable_metrics": {"kind": "flag"},
        "table": {"kind": "json"},
        "level": {"kind": "choice", "values": ["low", "high"]},
        "sizes": {"kind": "list"},
        "either": {"kind": "text"},
        "paths": {"kind": "text"},
        "longer_name": {"kind": "text"},
        "parser": {"kind": "text"},
        "old_flag": {"kind": "flag"},
        "old_value": {"kind": "int"},
        "model_path": {"kind": "text"},
        "model": {"kind": "text"},
        "buckets": {"kind": "list"},
    }


def test_the_arguments_of_vllms_server_are_those_of_its_front_end_too() -> None:
    found = vllm_server_arguments(
        Sources(
            {
                "vllm/entrypoints/openai/cli_args.py": """
class BaseFrontendArgs:
    response_role: str = "assistant"
class FrontendArgs(BaseFrontendArgs):
    port: int = 8000
    disable_log: bool = False
def make_arg_parser(parser):
    parser.add_argument("--headless", action="store_true")
    parser.add_argument("--api-server-count", "-asc", type=int)
"""
            }
        )
    )

    assert found == {
        "response_role": {"kind": "text"},
        "port": {"kind": "int"},
        "disable_log": {"kind": "flag"},
        "headless": {"kind": "flag"},
        "api_server_count": {"kind": "int"},
    }


@pytest.mark.parametrize("engine", server_arguments.SERVERS)
def test_every_image_of_aws_is_in_the_table(engine: str) -> None:
    assert set(server_arguments.versions(engine)) == set(images.versions(FAMILIES[engine]))


@pytest.mark.parametrize(
    ("version", "counted_as", "is_exact"),
    [
        ("", "0.30.0", True),
        ("0.25", "0.25.1", True),
        ("0.25.0", "0.25.0", True),
        ("0.99.0", "0.30.0", False),
        ("0.1.0", "0.23.0", False),
    ],
)
def test_an_unknown_version_counts_as_its_neighbour(version: str, counted_as: str, is_exact: bool) -> None:
    found = server_arguments.server_of("vllm-server", version)

    assert (found.version, found.is_exact) == (counted_as, is_exact)


@pytest.mark.parametrize(
    ("engine", "version", "option", "says"),
    [
        ("sglang", "0.5.20", "context_lenght: 8192", "did you mean context_length?"),
        ("sglang", "0.5.20", "mem_fraction_static: 80", "write 0.8: it is a fraction"),
        ("sglang", "0.5.20", "load_format: saftensors", "did you mean safetensors?"),
        ("sglang", "0.5.20", "enable_metrics: 1", "write true"),
        ("sglang", "0.5.20", "cuda_graph_max_bs: 4", "container.version 0.5.19 has it"),
        ("sglang", "0.5.20", "xyzzy: 4", "`lmi docs options`"),
        ("vllm-server", "0.30.0", "max-modle-len: 8192", "did you mean max_model_len?"),
        ("vllm-server", "0.30.0", "gpu_memory_utilization: 90", "write 0.9"),
        ("vllm-server", "own image", "max_modle_len: 8192", "did you mean max_model_len?"),
    ],
)
def test_a_wrong_argument_is_refused_with_what_to_write(
    engine: str, version: str, option: str, says: str
) -> None:
    with pytest.raises(RecipeError) as refused:
        parse(_recipe(engine, version, option), "a.yaml")

    assert says in str(refused.value.problems)


@pytest.mark.parametrize(
    ("engine", "version", "option"),
    [
        ("sglang", "0.5.20", "context_length: 8192"),
        ("sglang", "0.5.19", "cuda_graph_max_bs: 4"),
        ("sglang", "0.5.20", "cuda-graph-max-bs-decode: 4"),
        ("vllm-server", "0.30.0", "no_enable_prefix_caching: true"),
        ("vllm-server", "0.30.0", "max_model_len: 8k"),
        ("vllm-server", "own image", "brand_new_switch: true"),
        ("vllm-server", "own image", "gpu_memory_utilization: 90"),
    ],
)
def test_a_known_argument_and_what_a_newer_server_may_have_pass(
    engine: str, version: str, option: str
) -> None:
    assert parse(_recipe(engine, version, option), "a.yaml").options


def _recipe(engine: str, version: str, option: str) -> str:
    container = (
        f"version: {version}"
        if version != "own image"
        else "image: 123456789012.dkr.ecr.us-east-1.amazonaws.com/own:1"
    )
    return (
        f"name: a\nmodel_id: org/m\nengine: {engine}\ntask: text-generation\ninstance_type: ml.g5.xlarge\n"
        f"container: {{{container}}}\noptions: {{{option}}}\n"
    )
