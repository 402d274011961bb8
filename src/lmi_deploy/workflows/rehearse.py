"""The whole life of a deployment on this machine, before it is paid for: up, requests, update, rollback, down.

The plan is the recipe's own, for the model's real size; only the weights are replaced, by those of a stand-in model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from lmi_deploy.catalog.stand_ins import StandIn
from lmi_deploy.domain.deployment_spec import Spec, environment_name
from lmi_deploy.domain.djl_serving import ENGINE_VERSION
from lmi_deploy.domain.events import Event, Notice
from lmi_deploy.domain.gathered_facts import CompiledModel, Facts
from lmi_deploy.domain.number_text import counted, size_text
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.rehearsal_report import (
    RehearsalReport,
    RehearsalStep,
    StandInModel,
    not_provable,
    rehearsed,
)
from lmi_deploy.errors import DeployFailed, Interrupted, LmiError
from lmi_deploy.planning.log_lines import is_routine, read_line
from lmi_deploy.planning.resolve import resolve
from lmi_deploy.planning.stand_in_model import stand_in_model
from lmi_deploy.planning.worker_packages import worker_packages
from lmi_deploy.ports.hub import Hub
from lmi_deploy.ports.rehearsal import RehearsalSite
from lmi_deploy.workflows import down, rollback, up
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.deployment_plan import DeploymentPlan
from lmi_deploy.workflows.gather_facts import gather_model
from lmi_deploy.workflows.rehearsal_compile import compile_stand_in
from lmi_deploy.workflows.rehearsal_model import (
    ANYWHERE,
    REGION,
    RehearsedModel,
    compiler_stand_in_of,
    replaced_lines,
    stand_in_of,
    tensor_names,
)
from lmi_deploy.workflows.rehearsal_requests import (
    BAD_BODIES,
    answer_of,
    outcome_of,
    probe_request,
    rehearsal_hint,
    status_of_body,
    streamed_outcome,
)

OpenDependencies = Callable[[], Dependencies]
"""Opened again after a change of the account or of its keys."""
Measure = Callable[[DeploymentPlan, Dependencies], None]
_CHANGED: Final = ("LMI_REHEARSAL", "update")
"""The variable of the container that the update adds: no file of the artifact changes."""


@dataclass(slots=True)
class Rehearsal:
    """One rehearsal of `recipe`. `user` are the user's own Dependencies: the Hub, and the cache of environments."""

    recipe: Recipe
    user: Dependencies
    site: RehearsalSite
    open_deps: OpenDependencies
    keep: bool = False
    measure: Measure | None = None
    """Takes the place of the bad requests, the update and the rollback."""
    steps: list[RehearsalStep] = field(default_factory=list)
    step: str = "read the recipe and the model"
    _began: float = 0.0

    def run(self) -> Generator[Event, None, RehearsalReport]:
        """Yields the events of every step. LmiError names the step that failed; nothing is taken down then, because
        the site ends with everything in it.
        """
        try:
            return (yield from self._run())
        except LmiError as error:
            if isinstance(error, Interrupted):
                error.hint = "nothing is left of the rehearsal"
                raise
            error.message = f"the rehearsal failed at: {self.step}: {error.message}"
            if self.steps:
                error.hint = rehearsal_hint(error.hint)
            raise

    def _run(self) -> Generator[Event, None, RehearsalReport]:
        recipe, started = rehearsed(self.recipe), self.user.clock.monotonic()
        spec, served, model, stand_in = yield from self._prepare(recipe)
        deps, resolved = yield from self._open(recipe, served.source)
        before = self.site.emulated_seconds()
        deployment = yield from self._up(resolved, served, deps)
        ref = deployment.ref
        yield from self._invoke(deployment, deps)
        if self.measure is not None:
            yield self._begin("bench")
            self.measure(deployment, deps)
            self._done("measured")
        else:
            yield from self._bad_requests(deployment, deps)
            yield from self._update(recipe, served, deps)
            yield from self._rollback(ref, deployment, deps)
        if not self.keep:
            yield from self._down(ref, deps)
        emulated = self.site.emulated_seconds() - before
        price = deployment.target.prices(deployment.inventory)
        return RehearsalReport(
            deployment=ref.name,
            target=recipe.endpoint.target,
            steps=tuple(self.steps),
            artifact=deployment.artifact.digest,
            files=tuple(file.path for file in deployment.artifact.files),
            engine=recipe.engine,
            stand_in=stand_in.summary if stand_in else "",
            replaced=replaced_lines(stand_in, spec),
            cut=model.cut,
            own_tokenizer=model.own_tokenizer,
            real_size=spec.weights.size,
            size=deployment.spec.weights.size,
            estimate=deployment.estimate,
            emulated_seconds=emulated,
            price=next((price[one] for one in resolved.recipe.instance_type if one in price), None),
            count=recipe.endpoint.count or 1,
            seconds=self.user.clock.monotonic() - started,
            unproved=not_provable(self.recipe, is_replaced=stand_in is not None),
            compiled=served.compiled is not None,
        )

    def _prepare(
        self, recipe: Recipe
    ) -> Generator[Event, None, tuple[Spec, RehearsedModel, StandInModel, StandIn | None]]:
        """The stand-in model, compiled if the recipe says so, the worker's environment, and the emulator."""
        facts = gather_model(recipe, self.user)
        spec = resolve(recipe, facts, lambda *_: ANYWHERE)
        cloud = recipe.endpoint.target == "sagemaker"
        stand_in = stand_in_of(recipe, spec) if cloud else None
        yield self._begin("write the stand-in model")
        degree = spec.engine.tensor_parallel_degree
        model = stand_in_model(
            spec.weights.files,
            facts.config,
            degree=degree,
            quantized=stand_in is not None,
            names=tensor_names(facts),
        )
        hub, copied = self.user.hub(recipe.model_id), {}
        if model.copied:
            folder = yield from hub.fetch(facts.listing, model.copied, key="tokenizer")
            copied = {entry.path: folder / entry.path for entry in model.copied}
        source, listing = self.site.write_model(facts.listing, model, copied)
        size = sum(file.size for file in listing.files)
        self._done(f"{size_text(size)} for {size_text(spec.weights.size)}")
        served = RehearsedModel(source=source, listing=listing)
        if recipe.compile and recipe.compile.script:
            served = yield from self._compile(recipe, facts, served, stand_in)
        elif recipe.compile:
            served = replace(served, compiled=CompiledModel(listing=listing))
        if cloud:
            yield from self._start_emulator(spec, stand_in, served)
        return spec, served, model, stand_in

    def _compile(
        self, recipe: Recipe, facts: Facts, served: RehearsedModel, stand_in: StandIn | None
    ) -> Generator[Event, None, RehearsedModel]:
        yield self._begin("compile")
        folder, compiler = served.source.folder(served.listing), stand_in or compiler_stand_in_of(recipe)
        made = yield from compile_stand_in(
            recipe, facts, served.listing, folder, stand_in=compiler, user=self.user
        )
        self._done(made.outcome)
        return RehearsedModel(
            source=self.site.compiled_source(made.folder),
            listing=made.model.listing,
            compiled=made.model,
            environment=made.environment,
        )

    def _start_emulator(
        self, spec: Spec, stand_in: StandIn | None, served: RehearsedModel
    ) -> Iterator[Event]:
        yield self._begin("start the emulator")
        # A stand-in runs beside torch and transformers, which DJL's services import; a server program beside the
        # packages that made what it serves.
        is_replaced = stand_in is not None and stand_in.replaces_engine
        packages = (() if is_replaced else spec.engine.packages) or worker_packages(b"", b"")
        requirements, environments = spec.inputs.requirements.decode(), self.user.environments
        name = environment_name(packages, requirements)
        if served.environment and stand_in is not None and stand_in.server:
            name = served.environment
        if not environments.ready(name):
            yield Notice(text="building the environment of the handler; this is done once ...")
            yield from environments.build(name, packages, requirements, key="environment")
        if not environments.engine_ready(ENGINE_VERSION):
            yield from environments.install_engine(ENGINE_VERSION, key="engine")
        region = self.recipe.endpoint.region or REGION
        self.site.start_emulator(environments.python(name), region)
        self._done(f"in {self.site.folder}")

    def _open(
        self, recipe: Recipe, source: Hub
    ) -> Generator[Event, None, tuple[Dependencies, up.ResolvedRecipe]]:
        """The recipe resolved with the facts of the real model, by a user with the printed permissions."""
        yield self._begin("resolve the recipe")
        deps = self.open_deps()
        resolved = up.resolve_recipe(recipe, deps)
        if self.site.grant(resolved.spec):
            deps = self.open_deps()
        real, names = deps.hub, (recipe.model_id, resolved.spec.model.model_id)
        self._done(resolved.spec.engine.handler.entry_point)
        return replace(deps, hub=lambda name: source if name in names else real(name)), resolved

    def _up(
        self, resolved: up.ResolvedRecipe, served: RehearsedModel, deps: Dependencies
    ) -> Generator[Event, None, DeploymentPlan]:
        yield self._begin("up")
        resolved = served.instead_of_weights(resolved, deps)
        deployment = up.prepare_resolved(resolved, deps, priced=True)
        yield from up.execute(deployment, deps)
        if differing := self.site.artifact_differences(deployment.spec, deployment.artifact):
            raise DeployFailed(
                f"deployed files differ from the recipe's: {', '.join(differing)}",
                hint="report this as a bug",
            )
        again = up.prepare_resolved(resolved, deps)
        if not again.plan.empty:
            titles = "; ".join(action.title for action in again.plan.actions)
            raise DeployFailed(
                f"a second up would still change something: {titles}", hint="report this as a bug"
            )
        self._done(f"{counted(len(deployment.plan.actions), 'action')}; a second up plans nothing")
        return deployment

    def _invoke(self, deployment: DeploymentPlan, deps: Dependencies) -> Iterator[Event]:
        ref, spec = deployment.ref, deployment.spec
        yield self._begin("invoke")
        chunks, _ = answer_of(ref, probe_request(spec), deps)
        self._done(outcome_of(chunks))
        yield self._begin("invoke, streamed")
        self._done(streamed_outcome(ref, spec, deps))
        _require_no_errors(ref, deps)

    def _bad_requests(self, deployment: DeploymentPlan, deps: Dependencies) -> Iterator[Event]:
        ref, spec = deployment.ref, deployment.spec
        yield self._begin("bad requests")
        answers = [f"{what}: {status_of_body(ref, body, deps)}" for what, body in BAD_BODIES]
        answer_of(ref, probe_request(spec), deps)
        self._done("; ".join(answers) + "; then it still answers")

    def _update(self, recipe: Recipe, served: RehearsedModel, deps: Dependencies) -> Iterator[Event]:
        yield self._begin("update")
        container = replace(recipe.container, environment=(*recipe.container.environment, _CHANGED))
        changed = replace(recipe, container=container)
        resolved = up.resolve_recipe(changed, replace(deps, hub=self.user.hub))
        deployment = up.prepare_resolved(served.instead_of_weights(resolved, deps), deps)
        if deployment.plan.empty:
            raise DeployFailed("a changed container plans nothing", hint="report this as a bug")
        yield from up.execute(deployment, deps)
        answer_of(deployment.ref, probe_request(deployment.spec), deps)
        self._done(
            f"added a variable, {counted(len(deployment.plan.actions), 'action')}; the deployment answers"
        )

    def _rollback(self, ref: DeploymentRef, first: DeploymentPlan, deps: Dependencies) -> Iterator[Event]:
        yield self._begin("rollback")
        target = deps.targets[ref.target]
        if not target.earlier(target.observe(ref)):
            self._done("this target keeps no earlier version")
            return
        ref, plan, _, name = rollback.prepare_rollback(ref, deps)
        yield from rollback.roll_back(ref, deps, name, plan)
        record = target.read_record(ref)
        if record is None or record.current is None or record.current.server != name:
            raise DeployFailed("the first version is not current again", hint="report this as a bug")
        answer_of(ref, probe_request(first.spec), deps)
        self._done("the first version answers again")

    def _down(self, ref: DeploymentRef, deps: Dependencies) -> Iterator[Event]:
        yield self._begin("down")
        scope = down.TeardownScope(purge=True, logs=True)
        teardown = down.prepare(ref, deps, scope)
        yield from down.execute(teardown, deps)
        target = deps.targets[ref.target]
        if not target.plan_teardown(target.observe_all(ref)).empty:
            raise DeployFailed("something is left", hint="report this as a bug")
        self._done(f"{counted(len(teardown.plan.actions), 'action')}; nothing is left")

    def _begin(self, step: str) -> Notice:
        self.step, self._began = step, self.user.clock.monotonic()
        return Notice(text=f"-- {step}")

    def _done(self, outcome: str) -> None:
        seconds = self.user.clock.monotonic() - self._began
        self.steps.append(RehearsalStep(name=self.step, outcome=outcome, seconds=seconds))


_NO_GPU: Final = re.compile("cuda|nvml", re.IGNORECASE)
"""Words of errors of a server that finds no GPU, such as Triton's: a rehearsal runs on processors."""


def _require_no_errors(ref: DeploymentRef, deps: Dependencies) -> None:
    """DeployFailed for an error that is only in the log, such as an adapter that was not registered. Later the log has
    errors of the bad requests.
    """
    log = deps.targets[ref.target].logs(ref, follow=False)
    lines = (read_line(number, text) for number, text in enumerate(log, 1) if not is_routine(text))
    errors = [line.text for line in lines if line.severity == "error" and not _NO_GPU.search(line.text)]
    if errors:
        raise DeployFailed(
            f"the model answers, but its log has {counted(len(errors), 'error')}: {errors[0]}",
            hint="correct the cause; `lmi rehearse --keep` leaves everything running, with the log",
            details=errors[1:10],
        )
