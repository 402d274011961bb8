"""`lmi.Deployment`: a running model, found by its name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from lmi_deploy.api.deployment_lookup import TargetOptions, find_deployment
from lmi_deploy.api.responses import Answer, ResponseStream
from lmi_deploy.api.run import Run, Watch
from lmi_deploy.api.session import dependencies, explained
from lmi_deploy.bench.probe_request import DEFAULT_PROMPT
from lmi_deploy.domain.inference_http import InferenceRequest
from lmi_deploy.domain.recipe_endpoint_keys import TargetName
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.errors import NotFound
from lmi_deploy.workflows import down
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.interruption import recorded
from lmi_deploy.workflows.invoke import ResponseMetrics, invoke
from lmi_deploy.workflows.status import Status, status

if TYPE_CHECKING:
    from lmi_deploy.api.benchmarks import Benchmark

TIMEOUT = 120.0
"""Seconds without data after which a request fails."""


class Deployment:
    """A deployment on SageMaker or on this machine. It keeps nothing in memory: another process sees the same."""

    def __init__(self, ref: DeploymentRef, deps: Dependencies) -> None:
        self.ref = ref
        self._deps = deps

    @classmethod
    def load(cls, name: str, *, target: TargetName | None = None, region: str = "") -> Self:
        """By its name, or by the path of its recipe. NotFound if there is none.

        `target` and `region`, if the name exists in several places.
        """
        from dataclasses import replace

        with explained():
            deps = dependencies()
            ref = find_deployment(name, deps, TargetOptions(target=target, region=region))
            found = deps.targets[ref.target]
            observed = found.observe(ref)
            if found.status_of(observed)[0] == "absent":
                raise NotFound(f"{ref.name}: no such deployment", hint="`lmi ls` lists the deployments")
            return cls(replace(ref, shared=observed.ref.shared), deps)

    @property
    def name(self) -> str:
        return self.ref.name

    @property
    def address(self) -> str:
        """Where it answers: a URL on this machine, the name of an endpoint on SageMaker."""
        return self._deps.targets[self.ref.target].address(self.ref)

    def invoke(
        self,
        prompt: str | InferenceRequest,
        *,
        parameters: Mapping[str, Any] | None = None,
        system: str = "",
        adapter: str = "",
        timeout: float = TIMEOUT,
    ) -> Answer:
        """Send one request, and wait for the whole answer. DeployFailed has the server's own message.

        `parameters` are those of the model, such as `{"max_tokens": 50}`. For images, earlier turns or a body of your
        own, `prompt` is a `lmi.InferenceRequest`; the other arguments are then not used.
        """
        request = _request(prompt, parameters=parameters, system=system, adapter=adapter)
        metrics = ResponseMetrics()
        with explained():
            chunks = [*invoke(self.ref, request, self._deps, metrics, timeout=timeout)]
        return Answer(text="".join(chunk.text for chunk in chunks), metrics=metrics)

    def stream(
        self,
        prompt: str | InferenceRequest,
        *,
        parameters: Mapping[str, Any] | None = None,
        system: str = "",
        adapter: str = "",
        timeout: float = TIMEOUT,
    ) -> ResponseStream:
        """The same as pieces of text, as the model writes them; after the last one `stream.metrics` is complete."""
        request = _request(prompt, parameters=parameters, system=system, adapter=adapter, stream=True)
        metrics = ResponseMetrics()
        return ResponseStream(invoke(self.ref, request, self._deps, metrics, timeout=timeout), metrics)

    def status(self) -> Status:
        """Its state: `standing` is in-step, starting, drifted, absent or failed; with cause and remedy if it failed."""
        with explained():
            return status(self.ref, self._deps)

    def logs(self, *, follow: bool = False) -> Iterator[str]:
        """The lines of the model server and its workers, the oldest first; `follow` waits for new ones."""
        with explained():
            yield from self._deps.targets[self.ref.target].logs(self.ref, follow=follow)

    def down(
        self, *, purge: bool = False, logs: bool = False, progress: Watch | None = None
    ) -> tuple[str, ...]:
        """Delete it, check that nothing is left, and return what was deleted. It asks no question.

        `purge`: also its weights in the bucket, unless another deployment uses them. `logs`: also its log group.
        """
        with explained():
            teardown = down.prepare(self.ref, self._deps, down.TeardownScope(purge=purge, logs=logs))
        titles = tuple(action.title for action in teardown.plan.actions)
        Run("Deployment.down", recorded(down.execute(teardown, self._deps))).result(progress)
        return titles

    def bench(  # noqa: PLR0913 (the options of a command)
        self,
        prompts: str | Sequence[str] = DEFAULT_PROMPT,
        *,
        concurrency: int | Sequence[int] = (),
        rate: float | Sequence[float] = (),
        seconds: float = 30.0,
        output_tokens: int | None = None,
        objectives: Mapping[str, float] | None = None,
        max_cost: float | None = None,
        progress: Watch | None = None,
    ) -> Benchmark:
        """Send load, and report latency, throughput and cost, as `lmi bench` does. It needs the extra `[bench]`.

        `concurrency` keeps that many requests running; `rate` sends so many a second, whatever the server does. Of
        several values each is a load of `seconds`. `objectives`, such as `{"p99_ms": 500}`, decide `benchmark.passes`.
        Refused if the instances may cost more than `max_cost` dollars meanwhile.
        """
        with explained():
            # Not at the top: the statistics take longer to load than all the rest.
            from lmi_deploy.api.benchmarks import BenchOptions, benchmark

            options = BenchOptions(
                prompts=prompts,
                concurrency=concurrency,
                rate=rate,
                seconds=seconds,
                output_tokens=output_tokens,
                objectives=objectives,
                max_cost=max_cost,
            )
            return benchmark(self.ref, self._deps, options, progress or (lambda event: None))

    def __repr__(self) -> str:
        return f"<Deployment {self.name} on {self.ref.place}>"


def _request(
    prompt: str | InferenceRequest,
    *,
    parameters: Mapping[str, Any] | None,
    system: str,
    adapter: str,
    stream: bool = False,
) -> InferenceRequest:
    if isinstance(prompt, InferenceRequest):
        from dataclasses import replace

        return replace(prompt, stream=stream)
    return InferenceRequest(
        prompt=prompt, system=system, adapter=adapter, parameters=dict(parameters or {}), stream=stream
    )
