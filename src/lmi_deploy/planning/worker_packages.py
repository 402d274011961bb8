"""The packages that a worker needs for a model folder without a recipe."""

from __future__ import annotations

import ast

from lmi_deploy.domain.djl_serving import MODEL_PY
from lmi_deploy.domain.environment_setup import LocalSetup
from lmi_deploy.domain.gathered_facts import Machine
from lmi_deploy.domain.java_properties import parse_properties
from lmi_deploy.domain.recipe_keys import Handler
from lmi_deploy.engines import djl_huggingface
from lmi_deploy.engines.accelerate import engine as accelerate
from lmi_deploy.engines.custom import engine as custom
from lmi_deploy.engines.vllm.engine import SERVICE as VLLM_SERVICE
from lmi_deploy.engines.vllm.local import setup_of_properties

_HEAVY = frozenset({"torch", "transformers"})


def worker_setup(properties: bytes, model_py: bytes, machine: Machine) -> LocalSetup:
    """vLLM if serving.properties names its service; else packages alone. Raises Unresolvable for a vLLM that cannot
    run here.
    """
    given = parse_properties(properties)
    if given.get("option.entryPoint") == VLLM_SERVICE:
        return setup_of_properties(given, machine)
    return LocalSetup(packages=worker_packages(properties, model_py))


def worker_packages(properties: bytes, model_py: bytes) -> tuple[str, ...]:
    """The built-in handler's packages if serving.properties names it, torch if model.py imports it, else few."""
    entry_point = parse_properties(properties).get("option.entryPoint", "")
    if entry_point == djl_huggingface.MODULE or not (model_py or entry_point):
        return accelerate.ENGINE.packages(
            accelerate.ENGINE.handler(Handler(builtin=djl_huggingface.MODULE), None)
        )
    handler = Handler(file=MODEL_PY)
    if _imports(model_py) & _HEAVY:
        return accelerate.ENGINE.packages(accelerate.ENGINE.handler(handler, None))
    return custom.ENGINE.packages(custom.ENGINE.handler(handler, None))


def _imports(source: bytes) -> set[str]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return set()  # the server reports the error, with the line
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names
