"""Write catalog/server_arguments.json: the arguments of vLLM's and SGLang's own servers, of each image of AWS's.

`python -m tools.generate_server_arguments [VLLM_FOLDER [SGLANG_FOLDER]]`; a folder has an unpacked wheel in
`<version>/`, else the wheels are downloaded one after the other (vLLM's have 160 to 510 MB) and deleted. Nothing of
them is installed or executed.
"""

from __future__ import annotations

import ast
import datetime
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from lmi_deploy.catalog import images
from tools.argument_tables import Rule, changes, rule_index, write_table
from tools.generate_vllm import CATALOG
from tools.sglang_arguments import sglang_arguments
from tools.vllm_arguments import arguments, rule_of
from tools.vllm_facts import parsers
from tools.vllm_sources import Sources

SERVERS: Final = {"vllm-server": "vllm", "sglang": "sglang"}
"""The package of an engine, which is also the family of its images."""
_FILES: Final = {
    "vllm": "engine/arg_utils.py, config, entrypoints (cli_args.py), tool_parsers, reasoning",
    "sglang": "srt/server_args.py, srt/arg_groups",
}
_PLATFORMS: Final = ("manylinux1", "manylinux2014", *(f"manylinux_2_{n}" for n in (28, 31, 34, 35)))


def main(*folders: str) -> None:
    given = dict(zip(SERVERS.values(), folders, strict=False))
    table = {engine: _server(package, given.get(package)) for engine, package in SERVERS.items()}
    for engine, found in table.items():
        write_table(CATALOG / f"{engine.replace('-', '_')}_arguments.json", found)


def _server(package: str, folder: str | None) -> dict[str, Any]:
    versions = sorted(images.versions(package), key=lambda text: tuple(map(int, text.split("."))))
    read = READERS[package]
    found = [read(_sources(package, version, folder)) for version in versions]
    rules: list[Rule] = []
    return {
        "source": f"{package} {', '.join(versions)} (wheels of PyPI): {_FILES[package]}",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": versions,
        "options": changes(found, lambda rule: rule_index(rules, rule)),
        "rules": rules,
    }


def vllm_server_arguments(sources: Sources) -> dict[str, Rule]:
    """The engine's arguments, and those of the server in front of it."""
    found = dict(_frontend(sources)) | arguments(sources)
    for option in ("tool_call_parser", "reasoning_parser"):
        if names := parsers(sources, option):
            found[option] = {"kind": "choice", "values": names}
    return found


def _frontend(sources: Sources) -> dict[str, Rule]:
    """Of `FrontendArgs` and its base class, and the flags that `make_arg_parser` adds."""
    found: dict[str, Rule] = {}
    for module in (name for name in sources.names("vllm.entrypoints") if name.endswith(".cli_args")):
        for node in sources.classes(module):
            if node.name.endswith("FrontendArgs"):
                for statement in node.body:
                    match statement:
                        case ast.AnnAssign(target=ast.Name(id=name), annotation=hint):
                            rule = rule_of(sources.hints(module, hint))
                            found[name] = rule if rule["kind"] != "json" else {"kind": "text"}
                        case _:
                            pass
        for top in sources.module(module):
            if isinstance(top, ast.FunctionDef) and top.name == "make_arg_parser":
                found |= _added(top)
    return found


def _added(function: ast.FunctionDef) -> dict[str, Rule]:
    found: dict[str, Rule] = {}
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Attribute(attr="add_argument"), args=flags, keywords=words):
                given = {word.arg: ast.unparse(word.value) for word in words}
                kind = "flag" if "action" in given else {"int": "int"}.get(given.get("type", ""), "text")
                for flag in (one.value for one in flags if isinstance(one, ast.Constant)):
                    if str(flag).startswith("--"):
                        found[str(flag)[2:].replace("-", "_")] = {"kind": kind}
            case _:
                pass
    return found


READERS: Final[dict[str, Callable[[Sources], dict[str, Rule]]]] = {
    "vllm": vllm_server_arguments,
    "sglang": sglang_arguments,
}


def _sources(package: str, version: str, folder: str | None) -> Sources:
    print(package, version, file=sys.stderr, flush=True)
    if folder:
        root = Path(folder) / version
        return Sources({str(path.relative_to(root)): path.read_text() for path in root.rglob("*.py")})
    with tempfile.TemporaryDirectory() as scratch:
        platforms = [word for name in _PLATFORMS for word in ("--platform", f"{name}_x86_64")]
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:"]
        python = ["--python-version", "3.12", "--dest", scratch, f"{package}=={version}"]
        subprocess.run([*pip, *platforms, *python], check=True)
        (wheel,) = Path(scratch).glob("*.whl")
        return Sources.of_wheel(wheel, package)


if __name__ == "__main__":
    main(*sys.argv[1:])
