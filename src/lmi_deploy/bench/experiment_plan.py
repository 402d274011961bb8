"""An experiment as far as nothing is changed: every deployment is planned and priced, every request encoded, and each
cell has the name under which its result is kept.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from lmi_deploy.bench.experiment_design import Cell, DesignedDeployment, Stay, design, stays
from lmi_deploy.bench.experiment_requests import ModelPrompts, cell_requests
from lmi_deploy.bench.load_job import AROUND_SECONDS
from lmi_deploy.bench.load_job import START_SECONDS as JOB_START_SECONDS
from lmi_deploy.bench.load_share import require_divisible
from lmi_deploy.bench.objectives import Objective, objectives_of
from lmi_deploy.bench.prompt_files import BenchRequest
from lmi_deploy.bench.request_target import DeploymentTarget, RequestForm
from lmi_deploy.bench.run_limits import RunLimits
from lmi_deploy.domain.dearest_type import dearest_type
from lmi_deploy.domain.deployment_names import MAX_NAME
from lmi_deploy.domain.inference_http import ImageFile
from lmi_deploy.domain.observed_state import Price
from lmi_deploy.domain.recipe_bench_keys import Bench
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.sagemaker.load_job_options import LoadJobOptions, load_job_of_recipe
from lmi_deploy.domain.target_spec import SageMakerPlace
from lmi_deploy.engines.inference_codec import codec_of
from lmi_deploy.errors import UsageRefused
from lmi_deploy.ports.inference_endpoint import InferenceEndpoint
from lmi_deploy.ports.load_machines import LoadMachines
from lmi_deploy.workflows import up
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.deployment_plan import DeploymentPlan
from lmi_deploy.workflows.price_refresh import price_table

START_SECONDS: Final = 600
"""Assumed from the creation of an endpoint until it answers, and for its deletion, in the estimate of the cost."""
WARMUP_SECONDS: Final = 30
_DIGEST: Final = 8
ReadRecipe = Callable[[str, str | None, Sequence[str]], Recipe]
"""Of a path relative to the experiment's recipe (empty: that recipe), an overlay, and overrides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCell:
    """`key` is that of its results: it changes with all that is measured."""

    cell: Cell
    key: str
    requests: tuple[BenchRequest, ...]
    form: RequestForm


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDeployment:
    """`hourly` of all instances, fully scaled; None: nothing is billed, or the price is unknown."""

    label: str
    recipe: Recipe
    deployment: DeploymentPlan
    cells: Mapping[str, PlannedCell]
    hourly: float | None
    notices: tuple[str, ...] = ()
    currency: str = "USD"
    job_hourly: float | None = 0.0
    """Of the machines that send the load; None: unknown."""

    @property
    def billed(self) -> bool:
        return self.deployment.target.billed


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentPlan:
    name: str
    bench: Bench
    deployments: tuple[PlannedDeployment, ...]
    stays: tuple[Stay, ...]
    objectives: tuple[Objective, ...]
    limits: RunLimits
    by_job: LoadJobOptions | None = None
    """None: this machine sends the load; else a job for each cell."""

    def seconds(self, cells: int) -> float:
        """The longest that so many cells take."""
        return cells * (WARMUP_SECONDS + self.limits.seconds + _job_seconds(self.by_job))

    def cost(self, stay: Stay, cells: int) -> float:
        """The most that it costs, with the assumed time to start; 0 if nothing is billed."""
        one = self.deployments[stay.number]
        seconds = START_SECONDS + self.seconds(cells)
        return ((one.hourly or 0.0) + (one.job_hourly or 0.0)) * seconds / 3600 if cells else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentPlanner:
    """Reads only. `token` distinguishes the deployments of one results folder from all others; `prompts` are the
    requests of `bench.prompts`, `images` the files of `bench.images`.
    """

    recipe: Recipe
    bench: Bench
    read: ReadRecipe
    prompts: Sequence[BenchRequest]
    token: str
    deps: Dependencies
    images: Sequence[ImageFile] = ()

    def plan(self) -> ExperimentPlan:
        designed = design(self.bench)
        objectives, limits = objectives_of(self.bench.objectives), run_limits(self.bench)
        fixed = repr((self.bench.seed, self.bench.confidence, objectives, limits))
        by_job = load_job_of_recipe(self.bench)
        fixed += repr(by_job) if by_job else ""
        return ExperimentPlan(
            name=self.recipe.name,
            bench=self.bench,
            deployments=tuple(self._deployment(one, fixed) for one in designed),
            stays=stays(self.bench, designed),
            objectives=objectives,
            limits=limits,
            by_job=by_job,
        )

    def _deployment(self, one: DesignedDeployment, fixed: str) -> PlannedDeployment:
        variant = one.variant
        recipe = self.read(variant.recipe, variant.overlay or None, one.overrides)
        # What a killed run leaves expires, so that `lmi gc` deletes it, too.
        ttl = recipe.ttl or self._lifetime(one)
        # In one region: a cell is measured, paid for and deleted where the plan says. Without a second version.
        endpoint = replace(recipe.endpoint, regions=(), candidate=None)
        name = self._name(recipe.name, one)
        recipe = replace(recipe, name=name, bench=None, ttl=ttl, endpoint=endpoint, candidate=None)
        deployment = up.prepare(recipe, self.deps, priced=True)
        price, count = _dearest(deployment, self.deps)
        content = repr(replace(recipe, name="", origin="", overrides=(), ttl=None))
        identity = _digest(content, deployment.artifact.digest, fixed)
        synthetic = ModelPrompts(self.bench, self.recipe, deployment.spec.model, self.deps)
        cells = {cell.name: self.cell(cell, deployment, identity, synthetic) for cell in one.cells}
        machines = self._machines(one, deployment)
        unchecked = tuple(machines.require_able()) if machines else ()
        return PlannedDeployment(
            job_hourly=_hourly(machines),
            label=one.label,
            recipe=recipe,
            deployment=deployment,
            cells=cells,
            hourly=price.hourly * count if price else None,
            currency=price.currency if price else "USD",
            notices=(*synthetic.notices, *unchecked),
        )

    def _machines(self, one: DesignedDeployment, deployment: DeploymentPlan) -> LoadMachines | None:
        """What sends the load of its cells; None: this machine. UsageRefused of a variant that runs here, and of a load
        that they cannot divide.
        """
        options = load_job_of_recipe(self.bench)
        if options is None:
            return None
        serving = deployment.target.serving(deployment.spec, deployment.artifact)
        try:
            machines = self.deps.load_machines(deployment.ref, serving, options)
            for cell in one.cells:
                require_divisible(cell.load, run_limits(self.bench), machines.count)
        except UsageRefused as refused:
            raise UsageRefused(f"{one.label}: {refused.message}", hint=refused.hint) from None
        return machines

    def _lifetime(self, one: DesignedDeployment) -> int:
        """Twice as long as it takes at most, and an hour for a slow start."""
        cells = len(one.cells) * self.bench.repeats
        around = _job_seconds(load_job_of_recipe(self.bench))
        longest = START_SECONDS + cells * (WARMUP_SECONDS + self.bench.duration + int(around))
        return min(2 * longest + 3600, 90 * 86_400)

    def _name(self, name: str, one: DesignedDeployment) -> str:
        """The same in each run on this folder, so that what an interrupted run left is found."""
        suffix = _digest(self.token, repr((one.variant, one.overrides)))[:_DIGEST]
        return f"{name[: MAX_NAME - _DIGEST - 1].rstrip('-')}-{suffix}"

    def cell(
        self, cell: Cell, deployment: DeploymentPlan, identity: str, synthetic: ModelPrompts
    ) -> PlannedCell:
        """With its requests, encoded once: UsageRefused of one that the deployment does not take."""
        probe = deployment.spec.probe
        requests = cell_requests(
            self.bench, cell, self.prompts, probe=probe, synthetic=synthetic.of, images=self.images
        )
        form = RequestForm(
            stream=self.bench.stream,
            output_tokens=cell.output_tokens,
            exact=self.bench.exact,
            chat=self.bench.chat,
            parameters=_parameters(self.bench),
        )
        codec = codec_of(
            deployment.target.serving(deployment.spec, deployment.artifact), deployment.spec.name
        )
        target = DeploymentTarget(endpoint=InferenceEndpoint(url="", stream_url=""), codec=codec)
        try:
            target.encode(requests[0], form)
        except UsageRefused as refused:
            hint = "change the request in `bench`, or write it whole as bench.body"
            raise UsageRefused(f"{cell.name}: {refused}", hint=hint) from None
        key = _digest(identity, repr((cell, requests, form)), *_image_digests(requests))
        return PlannedCell(cell=cell, key=f"{_slug(cell.name)}-{key[:_DIGEST]}", requests=requests, form=form)


def _image_digests(requests: Sequence[BenchRequest]) -> list[str]:
    """The representation of a request leaves the bytes of its images out."""
    images = [image for one in requests for image in one.images]
    known = {image: _digest(image.data.hex()) for image in dict.fromkeys(images)}
    return [known[image] for image in images]


def _hourly(machines: LoadMachines | None) -> float | None:
    if machines is None:
        return 0.0
    price = machines.price
    return price.hourly * machines.count if price else None


def _job_seconds(by_job: LoadJobOptions | None) -> float:
    """Around each cell, for its job to start and to end."""
    return JOB_START_SECONDS + AROUND_SECONDS if by_job else 0.0


def run_limits(bench: Bench) -> RunLimits:
    return RunLimits(
        seconds=bench.duration,
        requests=bench.requests,
        warmup_requests=bench.warmup,
        seconds_after=bench.timeout,
    )


def _dearest(deployment: DeploymentPlan, deps: Dependencies) -> tuple[Price | None, int]:
    """Of the instance types in order of preference the one that costs most, and how many there may be."""
    place = deployment.spec.place
    if not isinstance(place, SageMakerPlace):
        return None, 0
    table = price_table(deps)
    types = [name for placement in place.placements for name in placement.types]
    _, price = dearest_type(types, lambda name: table.price(name, place.region))
    return price, place.instances[1]


def _parameters(bench: Bench) -> dict[str, Any]:
    """A value that is not JSON is a text."""
    found: dict[str, Any] = {}
    for name, text in bench.parameters:
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = text
    return found


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.=]+", "-", name).strip("-")[:80] or "cell"
