"""The user's own model.py, checked before anything is planned with it."""

from __future__ import annotations

from lmi_deploy.core.recipe import Recipe
from lmi_deploy.core.spec import Spec
from lmi_deploy.decide.check_handler import Finding, Wanted, check_handler
from lmi_deploy.engines.rendering import MODEL_PY
from lmi_deploy.errors import Unresolvable

RAN = "checked by its syntax tree (signature, sync or async, what it returns, imports)"


def check_own_code(recipe: Recipe, spec: Spec) -> tuple[str, ...]:
    """What should be known about it, last of all which checks ran. Unresolvable for what the server would refuse."""
    file = recipe.handler.file
    if file is None or spec.engine.handler.entry_point != MODEL_PY:
        return ()
    options = dict(spec.engine.properties)
    if options.get("option.entryPoint", MODEL_PY) != MODEL_PY:
        return (f"{file}: not checked, as options.entryPoint names another module",)
    wanted = Wanted(
        function=options.get("option.handler", "handle"),
        async_mode=options.get("option.async_mode", "").lower() == "true",
        packages=spec.engine.packages,
        requirements=spec.inputs.requirements.decode("utf-8", "replace"),
    )
    found = check_handler(spec.inputs.model_py, wanted)
    if fatal := [finding for finding in found if finding.fatal]:
        raise _refused(file, fatal)
    told = [f"{file}:{finding.line}: {finding.what}; {finding.hint}" for finding in found]
    return (*told, f"{file}: {RAN}; `up` makes its warm-up call in the worker as well")


def _refused(file: str, fatal: list[Finding]) -> Unresolvable:
    first, *more = [f"{file}:{finding.line}: {finding.what}" for finding in fatal]
    return Unresolvable(first, hint=fatal[0].hint, details=more)
