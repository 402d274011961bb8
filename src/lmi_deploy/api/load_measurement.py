"""What a measurement sends, to what, and how fast: the same for `lmi bench` and for `Deployment.bench`."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lmi_deploy.bench.probe_request import DEFAULT_PROMPT, default_request
from lmi_deploy.bench.prompt_files import BenchRequest
from lmi_deploy.bench.request_target import RequestForm
from lmi_deploy.domain.events import Event, Progress
from lmi_deploy.domain.number_text import counted, seconds_text
from lmi_deploy.errors import NotInstalled, Refused, UsageRefused

if TYPE_CHECKING:  # `lmi bench compare` has no use for them
    from lmi_deploy.bench.cloudwatch_figures import Between
    from lmi_deploy.bench.deployment_target import DeployedTarget
    from lmi_deploy.bench.load import Load
    from lmi_deploy.bench.load_job import LoadJob
    from lmi_deploy.bench.load_search import LoadSearch
    from lmi_deploy.bench.model_tokenizer import ModelTokenizer
    from lmi_deploy.bench.objectives import Objective
    from lmi_deploy.bench.request_target import RequestTarget
    from lmi_deploy.bench.run_limits import RunLimits, RunProgress
    from lmi_deploy.bench.run_sequence import Measurement
    from lmi_deploy.bench.synthetic_prompts import PromptShape
    from lmi_deploy.domain.inference_http import ImageFile
    from lmi_deploy.domain.record import DeploymentRef
    from lmi_deploy.domain.sagemaker.load_job_options import LoadJobOptions
    from lmi_deploy.workflows.dependencies import Dependencies

DEFAULT_REQUESTS: Final = (BenchRequest(prompt=DEFAULT_PROMPT),)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOptions:
    """`requests` in the order of the file, or the default one; with `shape` there are none until `with_prompts`."""

    requests: tuple[BenchRequest, ...] = DEFAULT_REQUESTS
    source: str = "one prompt"
    form: RequestForm
    shape: PromptShape | None = None
    tokenizer: str = ""
    seed: int = 0
    images: tuple[ImageFile, ...] = ()
    images_each: int = 1
    images_kind: str = ""

    def for_deployment(self, found: DeployedTarget) -> RequestOptions:
        """With a request that the deployment takes, if none is asked for."""
        if self.requests != DEFAULT_REQUESTS:
            return self
        request, source = default_request(found.target, found.probe)
        return replace(self, requests=(request,), source=source)

    def require_effect(self) -> None:
        """UsageRefused of options that only a prompt has, if every request is a whole body."""
        form = self.form
        given = {
            "the parameters (-p)": form.parameters,
            "--output-tokens": form.output_tokens,
            "--plain": not form.chat,
        }
        without = [name for name, value in given.items() if value]
        if self.requests and without and all(one.body is not None for one in self.requests):
            what = f"{without[0]}: no effect, because the requests are whole bodies ({self.source})"
            raise UsageRefused(
                what, hint='write it into the bodies: --prompts FILE with lines {"body": {...}}'
            )

    def with_prompts(self, model: str, revision: str, deps: Dependencies) -> RequestOptions:
        """The synthetic prompts for that model. UsageRefused if its tokenizer cannot be read."""
        if self.shape is None:
            return self._with_images()
        from lmi_deploy.bench.synthetic_prompts import synthetic_prompts

        tokenizer = _tokenizer(self.tokenizer, model, revision, deps)
        made = synthetic_prompts(self.shape, tokenizer, seed=self.seed)
        return replace(self, requests=made.requests, source=made.source)._with_images()

    def _with_images(self) -> RequestOptions:
        if not self.images:
            return self
        from lmi_deploy.bench.request_images import images_source, with_images

        requests = with_images(self.requests, self.images, each=self.images_each)
        source = images_source(self.images, self.images_each, self.images_kind)
        return replace(self, requests=requests, source=f"{self.source}, {source}")


def _tokenizer(named: str, model: str, revision: str, deps: Dependencies) -> ModelTokenizer:
    # Not at the top: few runs count tokens.
    from lmi_deploy.bench.model_tokenizer import model_tokenizer, tokenizer_at

    if not named and not model:
        hint = "name the model of the server, or a folder with its tokenizer.json: --tokenizer NAME"
        raise UsageRefused(
            "--input-tokens counts with the tokenizer of the model, which is unknown", hint=hint
        )
    if named and Path(named).expanduser().exists():
        return tokenizer_at(Path(named).expanduser())
    return model_tokenizer(named, "main", deps) if named else model_tokenizer(model, revision, deps)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """With a `search`, `loads` is only its first one."""

    loads: tuple[Load, ...]
    search: LoadSearch | None
    limits: RunLimits
    objectives: tuple[Objective, ...]
    confidence: float
    max_cost: float | None
    timeout: float
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedMeasurement:
    """Of a deployment. `between` reads CloudWatch's figures of it; without a `job` this machine sends the load."""

    measurement: Measurement
    between: Between | None
    job: LoadJob | None = None


def deployed_measurement(
    ref: DeploymentRef,
    deps: Dependencies,
    sending: RequestOptions,
    load: LoadOptions,
    *,
    note: Callable[[str], None],
    by_job: LoadJobOptions | None = None,
) -> DeployedMeasurement:
    """`note` gets what it may cost. Nothing is sent or started yet."""
    from lmi_deploy.bench.deployment_target import deployed_target

    found = deployed_target(ref, deps)
    sending = sending.for_deployment(found).with_prompts(found.model, found.commit, deps)
    given = {
        "billed": found.billed,
        "settings": found.settings,
        "details": found.details,
        "server": found.server,
    }
    measurement = measurement_of(ref.name, found.target, sending, load, **given)
    try:
        measurement.target.encode(sending.requests[0], sending.form)
    except UsageRefused as refused:
        hint = 'change the options of the request, or send whole bodies: --prompts FILE with lines {"body": {...}}'
        raise UsageRefused(str(refused), hint=hint) from None
    job = _load_job(ref, found, measurement, by_job, deps) if by_job else None
    require_affordable(measurement, load.max_cost, note, job)
    if job is not None:
        for unchecked in job.machines.require_able():
            note(unchecked)
    return DeployedMeasurement(measurement=measurement, between=found.measured, job=job)


def _load_job(
    ref: DeploymentRef,
    found: DeployedTarget,
    measurement: Measurement,
    options: LoadJobOptions,
    deps: Dependencies,
) -> LoadJob:
    from lmi_deploy.bench.deployed_load import planned_load_job

    return planned_load_job(ref, found, measurement, options, deps)


def measurement_of(
    name: str, target: RequestTarget, sending: RequestOptions, load: LoadOptions, **given: Any
) -> Measurement:
    """What `lmi bench` measures, from what was asked. UsageRefused of options without an effect."""
    from lmi_deploy.bench.run_sequence import Measurement

    sending.require_effect()
    return Measurement(
        name=name,
        target=target,
        requests=sending.requests,
        form=sending.form,
        loads=load.loads,
        search=load.search,
        limits=load.limits,
        timeout=load.timeout,
        objectives=load.objectives,
        confidence=load.confidence,
        seed=load.seed,
        environ=os.environ,
        **{**given, "details": {**given["details"], "requests": sending.source}},
    )


def require_affordable(
    measurement: Measurement, most: float | None, note: Callable[[str], None], job: LoadJob | None = None
) -> None:
    """Says the cost before anything is sent. Nothing is billed for a deployment without instances."""
    from lmi_deploy.bench.cost import cost_of_seconds, money

    billed, longest = measurement.billed, measurement.longest if job is None else job.longest
    cost = cost_of_seconds(billed, longest)
    if billed.price and cost is not None:
        time = f"{counted(measurement.most_loads, 'load')} in at most {seconds_text(longest)}"
        note(f"{time}: {billed.count} x {billed.instance} cost at most {money(cost, billed.price.currency)}")
    if job is not None:
        cost = _with_job(cost, job, most, note)
    if most is None or not billed.instance:
        return
    if cost is None:
        raise Refused(
            f"--max-cost {most:g}: the price of {billed.instance} is unknown",
            hint="run `lmi catalog refresh`, or omit --max-cost; nothing was sent",
        )
    who = f"{billed.count} x {billed.instance}" + (" and the job" if job else "")
    if cost > most:
        raise Refused(
            f"--max-cost {most:g}: {who} may cost {cost:.3g} in {seconds_text(longest)}",
            hint="shorten --duration or --timeout, or allow more; nothing was sent",
        )


def _with_job(
    cost: float | None, job: LoadJob, most: float | None, note: Callable[[str], None]
) -> float | None:
    """And of its machines."""
    from lmi_deploy.bench.deployed_load import cost_of_job, job_notes

    for line in job_notes(job):
        note(line)
    own = cost_of_job(job)
    if own is None and most is not None:
        raise Refused(
            f"--max-cost {most:g}: the price of {job.machines.instance} is unknown",
            hint="name another --job-instance-type, or omit --max-cost; nothing was started",
        )
    return None if cost is None or own is None else cost + own


def require_client() -> None:
    if find_spec("httptools") is None:
        raise NotInstalled("httptools", extra="bench")


class LiveProgress:
    """A line a second: drawing it takes time of the client that is measured."""

    def __init__(self, show: Callable[[Event], None]) -> None:
        self._show = show
        self._shown = 0

    def __call__(self, progress: RunProgress) -> None:
        second = int(progress.elapsed)
        if second == self._shown:
            return
        self._shown = second
        failed = f", {progress.failed} failed" if progress.failed else ""
        phase = "warm-up, " if progress.is_warming else ""
        note = (
            f"{phase}{progress.completed} responses{failed}, {progress.in_flight} in flight, "
            f"{seconds_text(progress.latency)} each"
        )
        event = Progress(key="bench", done=progress.seconds, total=None, unit="seconds", note=note)
        self._show(event)
