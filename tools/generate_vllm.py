"""Write catalog/vllm_options.json, vllm_fields.json and vllm_models.json from the wheels of vLLM, one per LMI image.

`python -m tools.generate_vllm [FOLDER]`; FOLDER has an unpacked wheel in `<version>/vllm`, else the wheels are
downloaded one after the other (160 to 510 MB each) and deleted. Nothing of vLLM is installed or executed.
"""

from __future__ import annotations

import datetime
import itertools
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tools.argument_tables import changes, rule_index, write_table
from tools.vllm_arguments import Rule, arguments
from tools.vllm_facts import architectures, backends, parsers, quantization, uses_transformers
from tools.vllm_option_fields import fields
from tools.vllm_sources import Sources

CATALOG: Final = Path(__file__).resolve().parents[1] / "src" / "lmi_deploy" / "catalog"
IMAGES: Final[dict[int, str]] = {
    10: "0.4.2",
    11: "0.5.3.post1",
    12: "0.6.2",
    13: "0.6.3.post1",
    14: "0.7.1",
    15: "0.8.4",
    16: "0.10.2",
    17: "0.11.1",
    18: "0.12.0",
    19: "0.14.0",
    20: "0.15.1",
    21: "0.16.0",
    22: "0.17.0",
    23: "0.18.0",
    24: "0.19.0",
    25: "0.20.1",
    26: "0.22.1",
    27: "0.23.0",
    28: "0.26.0",
    29: "0.28.0",
}
"""The vLLM of an LMI image: AWS Deep Learning Containers' release notes and available_images.md, 2026-11-20; of lmi29
djl-serving's pull request 3075. lmi27 has
a development build between 0.23.0 and 0.24.0.
"""
_PARSERS: Final = ("tool_call_parser", "reasoning_parser")
_TABLES: Final = ("json", "pairs", "text")
"""Kinds of an argument that may contain JSON."""
_BOUNDS: Final = ("ge", "gt", "le", "lt")
_PLATFORMS: Final = ("manylinux1", "manylinux2014", "manylinux_2_28", "manylinux_2_31", "manylinux_2_35")


def main(folder: str | None = None) -> None:
    versions = list(IMAGES.values())
    facts = [_facts(version, folder) for version in versions]
    found = "vLLM {} (wheels of PyPI): {{}}".format(", ".join(versions))
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    rules: list[Rule] = []
    options = _inherited_bounds([one["arguments"] for one in facts])
    head = {"date": date, "images": {str(image): version for image, version in IMAGES.items()}}
    write_table(
        CATALOG / "vllm_options.json",
        {
            "source": found.format("engine/arg_utils.py, config, tool_parsers, reasoning"),
            **head,
            "options": changes(options, lambda rule: rule_index(rules, rule)),
            "rules": rules,
        },
    )
    rules = []
    write_table(
        CATALOG / "vllm_fields.json",
        {
            "source": found.format("the classes of vllm/config, kv_connector/factory.py"),
            "date": date,
            "fields": changes([one["fields"] for one in facts], lambda rule: rule_index(rules, rule)),
            "rules": rules,
        },
    )
    write_table(
        CATALOG / "vllm_models.json",
        {
            "source": found.format("model_executor/models, layers/quantization, attention/backends"),
            "date": date,
            "transformers": next(i for i, one in enumerate(facts) if one["transformers"]),
            **{
                key: changes([one[key] for one in facts], lambda value: value)
                for key in ("architectures", "quantization", "backends")
            },
        },
    )


def _facts(version: str, folder: str | None) -> dict[str, Any]:
    print(f"vllm {version}", file=sys.stderr, flush=True)
    sources = _unpacked(Path(folder) / version) if folder else _downloaded(version)
    found = arguments(sources)
    for option in _PARSERS:
        if names := parsers(sources, option):
            found[option] = {"kind": "choice", "values": names}
    return {
        "arguments": found,
        "fields": fields(sources, (name for name, rule in found.items() if rule["kind"] in _TABLES)),
        "architectures": dict.fromkeys(architectures(sources), 1),
        "transformers": uses_transformers(sources),
        "quantization": quantization(sources),
        "backends": backends(sources),
    }


def _unpacked(root: Path) -> Sources:
    return Sources({str(path.relative_to(root)): path.read_text() for path in root.rglob("*.py")})


def _downloaded(version: str) -> Sources:
    platforms = [word for name in _PLATFORMS for word in ("--platform", f"{name}_x86_64")]
    with tempfile.TemporaryDirectory() as scratch:
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:"]
        python = ["--python-version", "3.11"]
        subprocess.run([*pip, *platforms, *python, "--dest", scratch, f"vllm=={version}"], check=True)
        (wheel,) = Path(scratch).glob("*.whl")
        return Sources.of_wheel(wheel)


def _inherited_bounds(versions: Sequence[dict[str, Rule]]) -> list[dict[str, Rule]]:
    """Older versions do not state every range that newer ones state: they take it from the next one that does."""
    result = [dict(one) for one in versions]
    for older, newer in reversed([*itertools.pairwise(result)]):
        for name, rule in older.items():
            following = newer.get(name, {})
            if rule["kind"] == following.get("kind") or {rule["kind"], following.get("kind")} == {
                "int",
                "size",
            }:
                older[name] = {**{key: following[key] for key in _BOUNDS if key in following}, **rule}
    return result


if __name__ == "__main__":
    main(*sys.argv[1:2])
