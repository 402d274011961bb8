"""The code follows its map: imports, purity, import time and names."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "lmi_deploy"
PURE_PACKAGES = ("domain", "catalog", "sizing", "engines", "recipe", "planning")
ADAPTERS = ("aws", "sources", "host", "state", "runtimes", "weights")
ALWAYS = {"errors", "domain"}
ALLOWED: dict[str, set[str]] = {
    "__main__": {"cli"},
    "errors": set(),
    "domain": set(),
    "ports": set(),
    "ui": set(),
    "catalog": set(),
    "sizing": {"catalog"},
    "engines": {"catalog"},
    "recipe": {"catalog"},
    "planning": {"catalog", "engines", "sizing", "recipe"},
    "targets": {"catalog", "engines", "sizing", "recipe", "planning", "ports"},
    "workflows": {"catalog", "engines", "sizing", "recipe", "planning", "ports"},
    # inference_client: the load is sent by the client that the proxy uses, whose overhead is measured.
    "bench": {
        *("catalog", "engines", "inference_client", "sizing", "recipe", "planning", "ports", "workflows"),
    },
    "weights": {"ports", "host"},
    "host": {"ports"},
    "state": {"ports", "host"},
    "aws": {"ports", "host"},
    "sources": {"ports", "host"},
    "runtimes": {"ports", "host"},
    "server": set(),
    "emulator": {"catalog", "ports"},
    "hub": {"host"},
    "inference_client": {"ports"},
    "proxy": {"composition", "engines", "inference_client", "ports"},
    # Above it `cli` and the names of `import lmi_deploy`; it prints only where its caller asks for that.
    "api": {"bench", "catalog", "composition", "engines", "planning", "ports", "recipe", "ui", "workflows"},
    "cli": {
        "api",
        "catalog",
        "engines",
        "sizing",
        "recipe",
        "planning",
        "workflows",
        "bench",
        "ui",
        "composition",
    },
}
ALLOWED["composition"] = {*ALLOWED} - {
    "server",
    "emulator",
    "hub",
    "proxy",
    "inference_client",
    "api",
    "cli",
    "ui",
    "bench",
}
ALLOWED_BY_FILE: dict[str, set[str]] = {
    "workflows/*.py": {
        *("targets.target", "targets.model_compiler", "targets.stack_exporter", "targets.endpoint_adopter"),
    },
    "proxy/*.py": {"targets.target"},
    "emulator/container_runtime.py": {"host", "runtimes"},
    "emulator/container_programs.py": {"runtimes"},
    # Policies exist for this target alone.
    "cli/commands/iam.py": {"targets.sagemaker.permissions"},
    "cli/commands/adopt.py": {"targets.sagemaker.permissions"},
    "cli/commands/bootstrap.py": {"targets.sagemaker.permissions"},
}
EXCEPTIONS: dict[str, set[str]] = {}
"""Known violations by file: none. It stays empty."""
VENDORS: dict[str, set[str]] = {
    "click": {"cli"},
    "rich": {"ui"},
    "pydantic": {"recipe"},
    "yaml": {"recipe"},
    "jinja2": {"engines"},
    "boto3": {"aws"},
    "botocore": {"aws", "emulator"},
    "sagemaker": {"aws"},
    "huggingface_hub": {"sources"},
    "httpx2": {"sources"},
    "jgo": {"runtimes"},
    "uv": {"runtimes"},
    "psutil": {"host", "server"},
    "aiohttp": {"server", "emulator", "hub"},
    "moto": {"emulator"},
    "zlib_ng": {"domain"},
    "httptools": {"inference_client"},
    "uvicorn": {"proxy"},
    "uvloop": {"proxy", "bench"},
    "prometheus_client": {"proxy"},
    "tokenizers": {"bench"},
    "pyarrow": {"bench"},
}
PURE = (
    *(f"{package}/*.py" for package in PURE_PACKAGES),
    *(f"inference_client/{name}.py" for name in ("eventstream", "line_splitting", "sigv4")),
    *(
        f"proxy/{name}.py"
        for name in (
            *("access_control", "completion_stream", "completion_translation", "embeddings", "openai_error"),
            *("responses_api", "stream_lines"),
        )
    ),
    *(
        f"bench/{name}.py"
        for name in (
            *("comparison", "cost", "histogram", "report_points", "objectives", "percentiles", "probability"),
            *(
                "request_records",
                "report",
                "report_file",
                "significance",
                "statistics",
                "consistency_checks",
                "factorial_design",
            ),
            *("html_report", "report_layouts", "report_plots", "report_tables", "svg_plots", "table_cells"),
            *("request_records_file", "text_reports", "prompt_files", "request_target", "response_reading"),
            *("run_limits", "load", "load_search", "load_share", "merged_runs", "ramp_slices"),
            *("load_job_messages", "shared_clock"),
        )
    ),
    "targets/openai_example.py",
    *(
        f"targets/local/{name}.py"
        for name in ("dry_run", "plan", "request_examples", "resolve", "runtime_selection", "status")
    ),
    *(
        f"targets/sagemaker/{name}.py"
        for name in (
            *(
                "alarms",
                "autoscaling",
                "component_place",
                "costs",
                "deployed_instance",
                "desired_state",
                "download_time",
                "in_place",
                "lost_ownership_tag",
                "notices",
                "resolve",
                "roles",
            ),
            *(
                "request_examples",
                "status",
                "transfer_job/resolve",
                "compile_job/resolve",
                "permissions/*",
                "plan/*",
                "export/cloudformation",
                "export/h*",
                "export/parameters",
                "export/scaling",
                "export/stack",
                "export/terraform",
                "export/yaml_text",
                "validate/*",
            ),
        )
    ),
)
"""Files, not packages: a target's folder contains both pure code and effects. `*` crosses folders."""
IMPURE_MODULES = {"os", "time", "random", "socket", "subprocess"}
SMALL_MODULE = 60
NOT_MERGED = ("ports",)
"""One port a file, and most are used by one implementation and by `ports/cloud.py`."""
SMALL_MODULES_WITH_A_REASON = {
    "targets/sagemaker/role_access.py": "its importer is the target, which has only what is asked of it",
    "recipe/checks/in_place.py": "cross-checks of one key, as those of container.build",
    # Modules below SMALL_MODULE lines that one other module imports.
    **dict.fromkeys(
        (
            "planning/traceback_error.py",
            "targets/local/request_examples.py",
            "weights/uploader_selection.py",
        ),
        "decides, and its importer reads or writes",
    ),
    **dict.fromkeys(
        (
            "recipe/checks/image_build.py",
            "targets/sagemaker/validate/compute_capability.py",
            "targets/sagemaker/validate/counts.py",
            "targets/sagemaker/validate/network_isolation.py",
            "targets/sagemaker/validate/output_addresses.py",
            "targets/sagemaker/validate/transfer_job.py",
            "targets/sagemaker/validate/update_policy.py",
        ),
        "one subject of rules a file",
    ),
    **dict.fromkeys(
        (
            "aws/bearer_token.py",
            "aws/dashboards.py",
            "aws/quotas.py",
            "aws/sagemaker/sdk_images.py",
            "aws/topics.py",
        ),
        "one service of AWS a file",
    ),
    **dict.fromkeys(
        (
            *("engines/lmi_dist/engine.py", "engines/sglang/engine.py"),
            *("sizing/tensor_split.py", "sizing/tensorrt_llm.py", "sizing/vllm_cpu.py"),
        ),
        "one engine a file",
    ),
    **dict.fromkeys(("workflows/access_token.py", "workflows/wait.py"), "one command a file"),
    **dict.fromkeys(
        ("host/orphan_watchdog.py", "targets/sagemaker/transfer_job/bootstrap.py"), "a program of its own"
    ),
    "targets/sagemaker/permissions/component_policy.py": "one subject of statements a file",
    **dict.fromkeys(
        (
            "emulator/runtime/inference_response.py",
            "targets/sagemaker/perform/traffic.py",
            "targets/sagemaker/perform/versions.py",
        ),
        "a part of what its importer does, which is at the limit of a file",
    ),
    "targets/sagemaker/observed_artifacts.py": "one kind of what is observed a file",
    "targets/sagemaker/perform/schedules.py": "the actions of one kind of resource a file",
    "targets/sagemaker/alarms.py": "as autoscaling.py: a group of keys, and its importer resolves all of them",
    "targets/sagemaker/observed_schedule.py": "a part of what is observed, and its importer is at the limit of a file",
    "aws/signing_keys.py": "credentials outside of boto3, apart from the calls that they sign",
    "emulator/sagemaker/tags.py": "one group of operations a file",
    **dict.fromkeys(("emulator/wire/rest_protocol.py",), "one wire format a file"),
    "emulator/custom_images.py": "chooses between programs, and its importer composes",
    "targets/sagemaker/compile_job/stored_result.py": "a source of files, apart from the job that wrote them",
    **dict.fromkeys(
        ("runtimes/runtime_detection.py", "targets/sagemaker/export/exporter.py"),
        "implements a port; its importer only composes",
    ),
    "sizing/fit_notes.py": "pure, and its importer is not",
    **dict.fromkeys(("ui/fit_text.py", "ui/metrics_text.py", "ui/rehearsal_text.py"), "only ui formats"),
    **dict.fromkeys(
        (
            *("host/recipe_author.py", "targets/sagemaker/deployment_access.py"),
            "targets/sagemaker/status_details.py",
        ),
        "reads, and its importer composes",
    ),
    "aws/rehearsal_account.py": "boto3, and its importer only composes",
    "sources/hub/token_owner.py": "a request to the Hub, and its importer only composes",
    "bench/shared_clock.py": "pure, and its importer is not",
}
VAGUE = re.compile(r"(^|_)(utils?|helpers?|manager|misc|common|data|info|config)(_|$)", re.IGNORECASE)


@dataclass(frozen=True)
class Definition:
    """A class or a function."""

    name: str
    line: int
    is_class: bool
    is_outermost: bool


@dataclass(frozen=True)
class Contents:
    """What the tests ask of a file. `imports`: module and line."""

    lines: int
    imports: tuple[tuple[str, int], ...]
    definitions: tuple[Definition, ...]


@cache
def modules() -> tuple[tuple[str, str, Contents], ...]:
    """Path below the package, its top package, and what is in it: each file is read and parsed once."""
    paths = [path.relative_to(SOURCE) for path in sorted(SOURCE.rglob("*.py"))]
    return tuple(
        (
            path.as_posix(),
            path.parts[0] if len(path.parts) > 1 else path.stem,
            contents((SOURCE / path).read_text(encoding="utf-8")),
        )
        for path in paths
    )


def contents(text: str) -> Contents:
    tree = ast.parse(text)
    outermost = {*map(id, tree.body)}
    imports: list[tuple[str, int]] = []
    definitions = []
    for node in statements(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports += imported(node)
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            is_class = isinstance(node, ast.ClassDef)
            definitions.append(Definition(node.name, node.lineno, is_class, id(node) in outermost))
    return Contents(len(text.splitlines()), tuple(imports), tuple(definitions))


def statements(parent: ast.AST) -> Iterator[ast.AST]:
    """Of all depths. Expressions, nine nodes of ten, contain none."""
    for block in ("body", "handlers", "cases", "orelse", "finalbody"):
        for node in getattr(parent, block, ()):
            yield node
            yield from statements(node)


NAMES = frozenset(
    ".".join(part for part in path.relative_to(SOURCE).with_suffix("").parts if part != "__init__")
    for path in SOURCE.rglob("*.py")
)
"""Each of our modules, relative to lmi_deploy."""


def imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, int]]:
    """Modules, ours by their full name: of `from package import module` the module."""
    if isinstance(node, ast.Import):
        yield from ((alias.name, node.lineno) for alias in node.names)
        return
    assert not node.level, "imports are absolute"
    if node.module:
        full = {f"{node.module}.{alias.name}" for alias in node.names}
        inside = {name for name in full if name.removeprefix("lmi_deploy.") in NAMES}
        yield from ((name, node.lineno) for name in sorted(inside))
        if len(inside) < len(full):
            yield node.module, node.lineno


def ours(module: Contents) -> Iterator[tuple[str, int]]:
    """Our modules, relative to lmi_deploy."""
    for name, line in module.imports:
        if name.startswith("lmi_deploy."):
            yield name.removeprefix("lmi_deploy."), line


def is_allowed(path: str, package: str, module: str) -> bool:
    allowed = ALWAYS | ALLOWED[package]
    for pattern, more in ALLOWED_BY_FILE.items():
        allowed = allowed | more if fnmatch(path, pattern) else allowed
    if package == "targets":
        # Its own folder and the modules beside the target folders, never another target.
        parts = path.split("/")
        allowed = allowed | ({f"targets.{parts[1]}"} if len(parts) > 2 else set())
        if module.count(".") == 1:
            allowed = allowed | {"targets." + Path(each).stem for each in NAMES_BESIDE}
    elif package == module.split(".")[0]:
        return True
    return any(module == each or module.startswith(f"{each}.") for each in allowed)


NAMES_BESIDE = frozenset(path.name for path in (SOURCE / "targets").glob("*.py"))


def test_packages_import_only_what_the_design_allows() -> None:
    wrong, used = [], set()
    for path, package, own in modules():
        if package == "__init__":
            continue
        for module, line in ours(own):
            if is_allowed(path, package, module):
                continue
            if module in EXCEPTIONS.get(path, ()):
                used.add((path, module))
            else:
                wrong.append(f"{path}:{line}: {package} imports {module}")
    assert not wrong, "\n".join(wrong)
    left = {(path, module) for path, modules in EXCEPTIONS.items() for module in modules} - used
    assert not left, f"no longer needed in EXCEPTIONS: {sorted(left)}"


def test_only_the_composition_constructs_adapters() -> None:
    for path, package, own in modules():
        if package in ("api", "cli", "workflows", "targets", "ui"):
            reached = {module.split(".")[0] for module, _ in ours(own)}
            assert not reached & {*ADAPTERS}, path


def test_vendors_stay_in_their_packages() -> None:
    wrong = [
        f"{path}:{line}: {package} imports {module}"
        for path, package, own in modules()
        for module, line in own.imports
        if (vendor := module.split(".")[0]) in VENDORS and package not in VENDORS[vendor]
    ]
    assert not wrong, "\n".join(wrong)


def is_pure(path: str) -> bool:
    return any(fnmatch(path, pattern) for pattern in PURE)


def test_pure_files_import_and_use_nothing_impure() -> None:
    wrong = []
    for path, package, own in modules():
        if not is_pure(path):
            continue
        for module, line in own.imports:
            if module.split(".")[0] in IMPURE_MODULES:
                wrong.append(f"{path}:{line}: imports {module}")
            name = module.removeprefix("lmi_deploy.")
            if package == "targets" and name.split(".")[0] in ("ports", "targets"):
                file = f"{name.replace('.', '/')}"
                if not is_pure(f"{file}.py") and not is_pure(f"{file}/__init__.py"):
                    wrong.append(f"{path}:{line}: is pure and imports {module}, which is not")
    assert not wrong, "\n".join(wrong)
    for pattern in PURE:
        assert any(fnmatch(path, pattern) for path, _, _ in modules()), f"{pattern}: no such file"


def _is_vague(name: str) -> bool:
    """Without the names of SageMaker and asyncio."""
    return bool(VAGUE.search(re.sub("endpoint_config|data_capture|data_received", "", name)))


def test_module_and_class_names_are_allowed() -> None:
    wrong = []
    for path, package, own in modules():
        if _is_vague(Path(path).stem):
            wrong.append(path)
        wrong += [
            f"{path}:{found.line}: {found.name} ({package})"
            for found in own.definitions
            if _is_vague(_words(found.name))
        ]
    assert not wrong, "\n".join(wrong)


def test_small_modules_with_one_importer_have_a_reason() -> None:
    importers: dict[str, set[str]] = {}
    for path, _, own in modules():
        for module, _ in ours(own):
            importers.setdefault(module, set()).add(path)
    small = {
        path
        for path, package, own in modules()
        if package not in NOT_MERGED
        and not path.startswith("cli/commands/")
        and not Path(path).stem.startswith("__")
        and own.lines < SMALL_MODULE
        and len(importers.get(path.removesuffix(".py").replace("/", "."), ())) == 1
    }
    assert small == {*SMALL_MODULES_WITH_A_REASON}, "merge it with its importer, or give a reason"


def test_public_class_name_has_one_meaning() -> None:
    """In `api` a name is the user's: `lmi.Recipe` is a file with overrides, and the recipe inside has its keys."""
    count: dict[str, int] = {}
    for _, package, own in modules():
        if package == "api":
            continue
        for found in own.definitions:
            if found.is_class and found.is_outermost and not found.name.startswith("_"):
                count[found.name] = count.get(found.name, 0) + 1
    assert [name for name, number in count.items() if number > 1] == []


def test_packages_have_no_import_cycle() -> None:
    edges: dict[str, set[str]] = {}
    for path, package, own in modules():
        if package != "__init__":
            targets = {
                module.split(".")[0] for module, _ in ours(own) if module not in EXCEPTIONS.get(path, ())
            }
            edges.setdefault(package, set()).update(targets - {package})
    done: set[str] = set()

    def visit(package: str, way: tuple[str, ...]) -> None:
        assert package not in way, " -> ".join((*way, package))
        if package not in done:
            for target in edges.get(package, ()):
                visit(target, (*way, package))
            done.add(package)

    for package in edges:
        visit(package, ())


@pytest.mark.parametrize(
    "vendor", ["rich", "yaml", "pydantic", "jinja2", "boto3", "huggingface_hub", "aiohttp"]
)
def test_help_imports_only_click(vendor: str) -> None:
    assert vendor not in loaded_by(
        "from lmi_deploy.cli.command_group import lmi; lmi.main(['--help'], standalone_mode=False)"
    )


def test_importing_every_module_has_no_side_effects() -> None:
    """No client, console, folder or environment is touched at import: sockets and the environment are
    closed."""
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
    if name.startswith(('lmi_deploy.aws', 'lmi_deploy.sources')): importlib.import_module(name)
socket.socket.connect = refuse
os.makedirs = os.mkdir = refuse
type(os.environ).__getitem__ = watched
for name in names: importlib.import_module(name)
print(len(names))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 50


def test_validate_loads_the_statistics_only_for_a_recipe_with_an_experiment() -> None:
    recipe = ROOT / "recipes" / "quickstart.yaml"
    program = (
        "from lmi_deploy.cli.command_group import lmi\n"
        f"lmi(['validate', {str(recipe)!r}], standalone_mode=False)"
    )
    assert not [name for name in loaded_by(program) if name.startswith("lmi_deploy.bench")]


@cache
def loaded_by(program: str) -> frozenset[str]:
    script = f"{program}\nimport sys\nprint('\\n'.join(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return frozenset(done.stderr.split())


def _words(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
