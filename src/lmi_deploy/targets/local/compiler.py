"""The port ModelCompiler of target local: the recipe's script on this machine, its result in the cache."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.djl_serving import SERVING_PROPERTIES
from lmi_deploy.domain.events import Event
from lmi_deploy.domain.gathered_facts import CompiledModel
from lmi_deploy.domain.java_properties import parse_properties
from lmi_deploy.domain.local_actions import BuildEnvironment, CompileModel, FetchWeights
from lmi_deploy.domain.number_text import counted, seconds_text
from lmi_deploy.domain.plan import Action, Estimate, Plan
from lmi_deploy.domain.target_spec import LocalCompilePlace
from lmi_deploy.errors import IntegrityError
from lmi_deploy.ports.compiled_models import CompileOrder, StoredCompile
from lmi_deploy.targets.local.target import LocalTarget
from lmi_deploy.targets.model_compiler import CompilePlan
from lmi_deploy.targets.target import Hubs, Outcome, Perform


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalCompiler:
    target: LocalTarget
    detached: ClassVar[bool] = False

    def compiled(self, spec: Spec) -> CompiledModel | None:
        identity = _place(spec).what.identity
        found = self.target.compiled_models.find(identity)
        if found is None:
            return None
        listing = replace(
            spec.model.listing(found.files), commit=identity, files=found.files, compiled=found.made_by
        )
        return CompiledModel(listing=listing, properties=_properties(found))

    def plan(self, spec: Spec, hubs: Hubs, recipe: str) -> CompilePlan:
        place, model = _place(spec), spec.model.listing(spec.weights.files)
        missing = hubs(spec.model.model_id).missing(model, model.files)
        actions = tuple(self._actions(spec, missing))
        for action in actions:
            if isinstance(action, BuildEnvironment):
                self.target.environments.require_space(
                    place.environment, place.packages, place.requirements, place.setup
                )
            elif isinstance(action, FetchWeights):
                hubs(spec.model.model_id).require_space(model, model.files)
        figures = (
            ("weights", f"{spec.weights.size}"),
            ("to fetch", f"{missing}"),
            ("device", spec.machine.device),
            ("time limit", seconds_text(place.timeout)),
        )
        return CompilePlan(
            plan=Plan(deployment=spec.name, actions=actions), estimate=Estimate(figures=figures)
        )

    def _actions(self, spec: Spec, missing: int) -> Iterator[Action]:
        place = _place(spec)
        if not self.target.environments.ready(place.environment):
            yield BuildEnvironment(
                environment=place.environment,
                packages=place.packages,
                requirements=place.requirements,
                setup=place.setup,
            )
        if missing:
            yield FetchWeights(
                model_id=spec.model.model_id,
                commit=spec.model.commit,
                files=spec.weights.files,
                missing=missing,
            )
        yield CompileModel(result=place.what.identity, environment=place.environment, timeout=place.timeout)

    def actions(self, spec: Spec, artifact: Artifact, hubs: Hubs) -> Perform:
        return {
            **self.target.deploy_actions(spec, artifact, hubs),
            CompileModel: lambda action: self._compile(spec, hubs, action),
        }

    def _compile(self, spec: Spec, hubs: Hubs, action: CompileModel) -> Generator[Event, None, Outcome]:
        place, listing = _place(spec), spec.model.listing(spec.weights.files)
        hub = hubs(spec.model.model_id)
        yield from hub.fetch(listing, listing.files, key=action.key)
        order = CompileOrder(
            identity=action.result,
            script=place.what.script,
            arguments=place.what.arguments,
            model=hub.folder(listing),
            python=self.target.environments.python(place.environment),
            timeout=action.timeout,
            made_by=place.what.title,
        )
        made = yield from self.target.compiled_models.make(order, key=action.key)
        return f"{counted(len(made.files), 'file')} stored"

    def stop(self, spec: Spec) -> Generator[Event, None, Outcome]:
        yield from ()
        return (
            "stopped"
            if self.target.compiled_models.stop(_place(spec).what.identity)
            else "no compile is running"
        )

    def running(self, spec: Spec) -> str:
        runs = self.target.compiled_models.running(_place(spec).what.identity)
        return "another lmi on this machine compiles the same model" if runs else ""


def _properties(found: StoredCompile) -> tuple[tuple[str, str], ...]:
    """Of a serving.properties in the result."""
    if SERVING_PROPERTIES not in {file.path for file in found.files}:
        return ()
    path = found.folder / SERVING_PROPERTIES
    try:
        return tuple(parse_properties(path.read_bytes()).items())
    except ValueError as reason:
        raise IntegrityError(
            f"{path}: {reason}", hint="the compiler wrote it: correct its script, and compile again"
        ) from None


def _place(spec: Spec) -> LocalCompilePlace:
    assert spec.machine.compile is not None, "only a recipe with `compile` is compiled"
    return spec.machine.compile
