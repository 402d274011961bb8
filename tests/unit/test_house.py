"""The house keeps to its map: who may import whom, what is imported when, and how things are named."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "lmi_deploy"
ALWAYS = {"errors", "core"}
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "core": set(),
    "ports": set(),
    "ui": set(),
    "catalog": set(),
    "sizing": {"catalog"},
    "engines": {"catalog"},
    "decide": {"catalog", "engines", "sizing"},
    "steps": {"catalog", "engines", "sizing", "decide", "ports"},
    "bench": {"catalog", "engines", "sizing", "decide", "ports", "steps"},
    "transfer": {"ports"},
    "targets": {"ports", "engines"},
    "runtimes": {"ports"},
    "adapters": {"ports"},
    "server": set(),
    "emulator": {"catalog", "ports"},
    "cli": {"catalog", "engines", "sizing", "decide", "steps", "bench", "ui"},
}
CLI_WIRING = {*ALLOWED} - {"server", "emulator"}
VENDORS: dict[str, set[str]] = {
    "click": {"cli"},
    "rich": {"ui"},
    "pydantic": {"decide"},
    "yaml": {"decide"},
    "jinja2": {"decide"},
    "boto3": {"adapters"},
    "botocore": {"adapters", "emulator"},
    "huggingface_hub": {"adapters"},
    "httpx2": {"adapters"},
    "jgo": {"adapters"},
    "uv": {"adapters"},
    "psutil": {"adapters", "server"},
    "sagemaker": {"adapters"},
    "aiohttp": {"server", "emulator"},
    "moto": {"emulator"},
    "zlib_ng": {"core"},
}
PURE_ROOMS = ("core", "decide", "catalog", "engines", "sizing")
IMPURE_MODULES = {"os", "time", "random", "socket", "subprocess"}
VAGUE = re.compile(r"(^|_)(utils?|helpers?|manager|misc|common|data|info|config)(_|$)", re.IGNORECASE)
MAX_FUNCTION = 50
MAX_FILE = 300


def modules() -> Iterator[tuple[Path, str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        relative = path.relative_to(SOURCE)
        room = relative.parts[0] if len(relative.parts) > 1 else relative.stem
        yield path, room, ast.parse(path.read_text(encoding="utf-8"))


def imported(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, node.lineno
            if node.module == "lmi_deploy":
                yield from ((f"lmi_deploy.{alias.name}", node.lineno) for alias in node.names)


def room_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "lmi_deploy" and len(parts) > 1 else None


def test_rooms_import_only_what_the_design_allows() -> None:
    wrong = []
    for path, room, tree in modules():
        if room in ("__init__", "__version__"):
            continue
        allowed = ALWAYS | ALLOWED[room] | {room}
        if room == "cli" and path.name.startswith("wiring"):
            allowed = ALWAYS | CLI_WIRING
        if path == SOURCE / "emulator" / "wiring.py":
            allowed = allowed | {"adapters", "runtimes"}
        for module, line in imported(tree):
            target = room_of(module)
            if target and target not in allowed and target != "__version__":
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {room} imports {target}")
    assert not wrong, "\n".join(wrong)


def test_only_wiring_reaches_adapters_targets_and_runtimes_from_the_command_line() -> None:
    for path, room, tree in modules():
        if room == "cli" and not path.name.startswith("wiring"):
            reached = {room_of(module) for module, _ in imported(tree)}
            assert not reached & {"adapters", "targets", "runtimes", "transfer"}, path


def test_vendors_stay_in_their_rooms() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {room} imports {module}"
        for path, room, tree in modules()
        for module, line in imported(tree)
        if (vendor := module.split(".")[0]) in VENDORS and room not in VENDORS[vendor]
    ]
    assert not wrong, "\n".join(wrong)


def test_deciding_is_pure() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {room} imports {module}"
        for path, room, tree in modules()
        if room in PURE_ROOMS
        for module, line in imported(tree)
        if module.split(".")[0] in IMPURE_MODULES
    ]
    assert not wrong, "\n".join(wrong)


def test_names_say_something() -> None:
    wrong = []
    for path, room, tree in modules():
        if VAGUE.search(path.stem):
            wrong.append(str(path.relative_to(ROOT)))
        for node in ast.walk(tree):
            named = isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
            if named and VAGUE.search(_words(node.name)) and "endpoint_config" not in _words(node.name):
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}: {node.name} ({room})")
    assert not wrong, "\n".join(wrong)


def test_functions_and_files_are_small() -> None:
    wrong = []
    for path, _, tree in modules():
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > MAX_FILE:
            wrong.append(f"{path.relative_to(ROOT)}: {lines} lines")
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                size = (node.end_lineno or node.lineno) - node.lineno + 1
                if size > MAX_FUNCTION:
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}, {size} lines")
    assert not wrong, "\n".join(wrong)


def test_there_is_no_import_cycle_between_rooms() -> None:
    edges: dict[str, set[str]] = {}
    for path, room, tree in modules():
        if path.stem.startswith("wiring") or room == "__init__":
            continue
        targets = {target for module, _ in imported(tree) if (target := room_of(module))}
        edges.setdefault(room, set()).update(targets - {room})
    # `errors` carries `core.problem`; core never looks back.
    assert "errors" not in edges.get("core", set())
    done: set[str] = set()

    def visit(room: str, way: tuple[str, ...]) -> None:
        assert room not in way, " -> ".join((*way, room))
        if room not in done:
            for target in edges.get(room, ()):
                visit(target, (*way, room))
            done.add(room)

    for room in edges:
        visit(room, ())


@pytest.mark.parametrize(
    "vendor", ["rich", "yaml", "pydantic", "jinja2", "boto3", "huggingface_hub", "aiohttp"]
)
def test_help_pays_for_click_alone(vendor: str) -> None:
    assert vendor not in loaded_by(
        "from lmi_deploy.cli.group import lmi; lmi.main(['--help'], standalone_mode=False)"
    )


def test_importing_every_module_does_nothing() -> None:
    """No client, console, folder or environment is touched at import: sockets and the environment are closed."""
    program = f"""
import builtins, importlib, os, pkgutil, socket, sys
sys.path.insert(0, {str(SOURCE.parent)!r})
import lmi_deploy
names = [m.name for m in pkgutil.walk_packages(lmi_deploy.__path__, 'lmi_deploy.') if not m.name.endswith('__main__')]
def refuse(*a, **k): raise AssertionError('touched at import')
real = type(os.environ).__getitem__
def watched(self, key):
    if key.startswith(('LMI_', 'HF_', 'AWS_', 'XDG_')): refuse()
    return real(self, key)
for name in names:
    if name.startswith('lmi_deploy.adapters'): importlib.import_module(name)
socket.socket.connect = refuse
os.makedirs = os.mkdir = refuse
type(os.environ).__getitem__ = watched
for name in names: importlib.import_module(name)
print(len(names))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 50


def loaded_by(program: str) -> set[str]:
    script = f"{program}\nimport sys\nprint('\\n'.join(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def _words(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
