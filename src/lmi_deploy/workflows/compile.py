"""Compile a recipe's model ahead of time, once, and serve the result from then on."""

from __future__ import annotations

import ast
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from lmi_deploy.domain.currency import format_price
from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.events import Event, Started
from lmi_deploy.domain.gathered_facts import CompiledModel, Facts
from lmi_deploy.domain.plan import Estimate, Plan
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.sagemaker.job_actions import RunCompileJob
from lmi_deploy.errors import UNBEGUN, Interrupted, LmiError, NotCompiled, Refused, Unresolvable, UsageRefused
from lmi_deploy.planning.render import render
from lmi_deploy.targets.model_compiler import CompilePlan, ModelCompiler
from lmi_deploy.targets.target import Outcome
from lmi_deploy.workflows.apply import apply
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.error_diagnosis import explain
from lmi_deploy.workflows.handler_dry_run import NoJournal
from lmi_deploy.workflows.model_validation import review_with_draft
from lmi_deploy.workflows.up import ResolvedRecipe, compiler_for, resolve_recipe

_SHOWN: Final = 40
"""Last lines of a failed job's log in its error; the diagnosis looks at all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCompile:
    """One recipe, followed as far as the plan of its compile; `found` is the result if it exists already."""

    spec: Spec
    artifact: Artifact
    compiler: ModelCompiler
    found: CompiledModel | None
    made: CompilePlan
    arguments: str
    """The recipe's name for a command line."""
    started: list[str] = field(default_factory=list)

    @property
    def plan(self) -> Plan:
        return self.made.plan


def prepare(recipe: Recipe, deps: Dependencies) -> PreparedCompile:
    """Reads only. An empty plan if the result exists."""
    resolved, compiler = _resolved(recipe, deps)
    spec = resolved.spec
    found = compiler.compiled(spec)
    made = CompilePlan(plan=Plan(deployment=spec.name, actions=()), estimate=Estimate(figures=()))
    if found is None:
        _check_script(recipe, resolved.facts)
        files = [file.path for file in resolved.facts.listing.files]
        review = review_with_draft(
            resolved.recipe, resolved.facts.config, deps, machine=resolved.facts.machine, files=files
        )
        review.require()
        made = compiler.plan(spec, deps.hub, recipe.arguments)
        made = replace(made, notices=(*resolved.of_instance, *review.notes, *made.notices))
    return PreparedCompile(
        spec=spec,
        artifact=render(spec),
        compiler=compiler,
        found=found,
        made=made,
        arguments=recipe.arguments,
    )


def require_affordable(prepared: PreparedCompile, most: float | None) -> None:
    """Refused if the job may cost more than `most` dollars per hour, or its price is unknown."""
    hourly = prepared.made.hourly
    if most is None or prepared.plan.empty or (hourly is not None and hourly <= most):
        return
    if hourly is None:
        raise Refused(
            f"--max-hourly {most:g}: the price of the compile job is unknown",
            hint="omit --max-hourly, or choose a compile.instance_type with a known price",
        )
    raise Refused(
        f"--max-hourly {most:g}: the compile job of {prepared.spec.name} costs {format_price(hourly, 'USD')} an hour",
        hint=f"allow {format_price(hourly, 'USD')}, or choose a smaller compile.instance_type",
    )


def execute(prepared: PreparedCompile, deps: Dependencies) -> Generator[Event, None, CompiledModel]:
    """The result. Without lock and record: the job's name is that of its result, and storing it twice changes
    nothing.
    """
    if prepared.found is not None:
        return prepared.found
    spec, compiler = prepared.spec, prepared.compiler
    try:
        perform = compiler.actions(spec, prepared.artifact, deps.hub)
        yield from _noted(apply(prepared.plan, perform, NoJournal(), deps.clock), prepared)
    except KeyboardInterrupt:
        raise _interrupted(prepared) from None
    except LmiError as error:
        explain(error, spec.engine.name)
        error.details = error.details[-_SHOWN:]
        raise
    found = compiler.compiled(spec)
    if found is None:
        raise NotCompiled(
            f"{spec.name}: the result was removed while it was stored", hint="run the same command again"
        )
    return found


def stop(recipe: Recipe, deps: Dependencies) -> Generator[Event, None, Outcome]:
    """Stop the job that compiles this recipe."""
    resolved, compiler = _resolved(recipe, deps)
    return (yield from compiler.stop(resolved.spec))


def _resolved(recipe: Recipe, deps: Dependencies) -> tuple[ResolvedRecipe, ModelCompiler]:
    if recipe.compile is None:
        raise UsageRefused(
            f"{recipe.name}: the recipe has no `compile`",
            hint="add compile: {} for the engine's own compiler, or compile: {script: compile.py} for yours",
        )
    return resolve_recipe(recipe, deps), compiler_for(recipe, deps)


def _check_script(recipe: Recipe, facts: Facts) -> None:
    """A mistake that the job would find after minutes, on a paid machine."""
    script = recipe.compile.script if recipe.compile else None
    try:
        ast.parse(facts.compile_script or b"", filename=script or "")
    except SyntaxError as error:
        raise Unresolvable(
            f"compile.script: {script}:{error.lineno}: {error.msg}", hint="correct the script"
        ) from None
    except ValueError as error:
        raise Unresolvable(f"compile.script: {script}: {error}", hint="write it as UTF-8 text") from None


def _noted(events: Iterator[Event], prepared: PreparedCompile) -> Iterator[Event]:
    for event in events:
        if isinstance(event, Started):
            prepared.started.append(event.key)
        yield event


def _interrupted(prepared: PreparedCompile) -> Interrupted:
    """What still runs, and how to stop it."""
    if not prepared.compiler.detached:
        hint = "run the command again: complete downloads and environments are kept"
        return Interrupted(
            "interrupted: nothing of the result was kept", hint=hint if prepared.started else UNBEGUN
        )
    if not any(key.startswith(f"{RunCompileJob.kind}:") for key in prepared.started):
        hint = (
            "files that reached the bucket stay there. Run the command again" if prepared.started else UNBEGUN
        )
        return Interrupted("interrupted before the job was started", hint=hint)
    try:
        running = prepared.compiler.running(prepared.spec)
    except LmiError:
        running = "whether the job runs could not be read"
    command = f"lmi compile {prepared.arguments}"
    return Interrupted(
        f"interrupted: {running}" if running else "interrupted: no job is running",
        hint=f"run `{command}` again to wait for it, or `{command} --stop` to stop it",
    )
