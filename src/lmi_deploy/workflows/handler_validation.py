"""The user's own model.py, checked before anything is planned with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lmi_deploy.catalog.server_version import server_version
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.djl_serving import MODEL_PY, REQUIREMENTS_TXT, SERVING_PROPERTIES
from lmi_deploy.domain.java_properties import parse_properties
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.engines.registry import ENGINES
from lmi_deploy.errors import Unresolvable
from lmi_deploy.planning.handler_syntax import HandlerFinding, HandlerRequirements, check_handler
from lmi_deploy.planning.worker_packages import worker_packages

_TRIED = "`up` makes its warm-up call in the worker as well"
_TRIED_HERE = (
    "`up` first makes its warm-up call in a worker on this machine, if everything it needs is installed; "
    "--check-handler always does"
)
RAN = "checked by its syntax tree (signature, sync or async, what it returns, imports)"


def check_own_code(recipe: Recipe, spec: Spec, *, tried_here: bool) -> tuple[str, ...]:
    """Notices about the code, the last one naming the checks that ran. Unresolvable for what the server
    would refuse. `tried_here`: `up` tries it on this machine before it is deployed to another one.
    """
    file = recipe.handler.file
    if file is None or spec.engine.handler.entry_point != MODEL_PY:
        return ()
    options = dict(spec.engine.properties)
    if spec.engine.name == "triton":
        return (f"{file}: not checked; Triton's Python backend needs a class TritonPythonModel in it",)
    if options.get("option.entryPoint", MODEL_PY) != MODEL_PY:
        return (f"{file}: not checked, as options.entryPoint names another module",)
    requirements = spec.inputs.requirements.decode("utf-8", "replace")
    expected = _handler_requirements(options, spec.engine.packages, requirements)
    found = check_handler(spec.inputs.model_py, expected)
    if fatal := [finding for finding in found if finding.fatal]:
        raise _refused(file, fatal)
    lines = [f"{file}:{finding.line}: {finding.what}; {finding.hint}" for finding in found]
    return (*lines, f"{file}: {RAN}; {_TRIED_HERE if tried_here else _TRIED}")


def recipe_findings(recipe: Recipe) -> tuple[HandlerFinding, ...]:
    """Findings about the recipe's own file, before its model is read. Unresolvable if its engine takes none."""
    options = {f"option.{name}": value for name, value in recipe.options} | dict(recipe.properties)
    version, _ = server_version(recipe.container.version, recipe.container.image)
    module = ENGINES[recipe.engine]
    handler = module.handler(recipe.handler, recipe.task, version=version)
    entry_point = options.get("option.entryPoint", handler.entry_point)
    if recipe.handler.file is None or recipe.engine == "triton" or entry_point != MODEL_PY:
        return ()
    folder, packages = Path(recipe.origin).parent, module.packages(handler)
    requirements = (
        _read(folder / recipe.requirements).decode("utf-8", "replace") if recipe.requirements else ""
    )
    return check_handler(
        _read(folder / recipe.handler.file), _handler_requirements(options, packages, requirements)
    )


def folder_findings(folder: Path) -> tuple[HandlerFinding, ...]:
    """Findings about the model.py in a model folder, for the entry point in its serving.properties."""
    code, raw = _read(folder / MODEL_PY), _read(folder / SERVING_PROPERTIES)
    response = parse_properties(raw)
    if not code or response.get("option.entryPoint", MODEL_PY) != MODEL_PY:
        return ()
    requirements = _read(folder / REQUIREMENTS_TXT).decode("utf-8", "replace")
    return check_handler(code, _handler_requirements(response, worker_packages(raw, code), requirements))


def _handler_requirements(
    properties: Mapping[str, str], packages: tuple[str, ...], requirements: str
) -> HandlerRequirements:
    return HandlerRequirements(
        function=properties.get("option.handler", "handle"),
        async_mode=properties.get("option.async_mode", "").lower() == "true",
        packages=packages,
        requirements=requirements,
    )


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def _refused(file: str, fatal: list[HandlerFinding]) -> Unresolvable:
    first, *more = [f"{file}:{finding.line}: {finding.what}" for finding in fatal]
    return Unresolvable(first, hint=fatal[0].hint, details=more)
