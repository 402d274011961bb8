"""The probe of an endpoint on SageMaker: one real inference by the version that serves, and one by its candidate."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace

from lmi_deploy.domain.events import Event, Notice
from lmi_deploy.domain.inference_http import VARIANT_HEADER, HttpRequest, ResponseHead
from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.sagemaker.actions import ProbeEndpoint
from lmi_deploy.domain.sagemaker.resource_settings import CANDIDATE, VARIANT
from lmi_deploy.domain.serving_record import ServingRecord
from lmi_deploy.engines.inference_codec import Codec, codec_of
from lmi_deploy.errors import DeployFailed, LmiError, NotFound
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.cloud import BucketServices, Cloud
from lmi_deploy.targets.inference_probe import TIMEOUT, probe
from lmi_deploy.targets.sagemaker.async_requests import AsyncRequests
from lmi_deploy.targets.sagemaker.perform.components import has_scaled_to_zero
from lmi_deploy.targets.target import Outcome

Steps = Generator[Event, None, Outcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointProbe:
    ref: DeploymentRef
    cloud: Cloud
    services: Callable[[], BucketServices]
    clock: Clock
    requests: Callable[[], AsyncRequests]

    def run(self, action: ProbeEndpoint, codec: Codec | None = None, other: Codec | None = None) -> Steps:
        """`codec` and `other` (the candidate's): by default those of the record."""
        may_sleep = action.shared or action.asynchronous
        if may_sleep and has_scaled_to_zero(self.cloud, self.ref.name, component=bool(action.shared)):
            what = "copy" if action.shared else "instance"
            yield Notice(
                text=f"{self.ref.name} was not asked: it has no {what} now, and a request starts one; "
                f"`{self.ref.command('invoke')}` asks it"
            )
            return "not sent"
        outcome = yield from self._send(
            action, codec or codec_of(self._serving(), self.ref.name), VARIANT * bool(action.candidate)
        )
        if action.candidate is not None:
            outcome = yield from self._candidate(action, other, outcome)
        if action.shadow:
            outcome += f"; {self._shadow(action)}"
        return outcome

    def _send(self, action: ProbeEndpoint, codec: Codec, variant: str) -> Steps:
        name = self.ref.name
        named = ((VARIANT_HEADER, variant),) if variant else ()

        def send(request: HttpRequest) -> Iterator[ResponseHead | bytes]:
            if action.asynchronous:
                return self.requests().exchange(request)
            component = name if action.shared else ""
            request = replace(request, headers=(*request.headers, *named))
            return self.cloud.hosting.invoke(
                action.shared or name, request, timeout=TIMEOUT, component=component
            )

        return (yield from probe(action.probe, codec, send, ref=self.ref, clock=self.clock))

    def _candidate(self, action: ProbeEndpoint, codec: Codec | None, outcome: str) -> Steps:
        assert action.candidate is not None
        try:
            answered = yield from self._send(
                replace(action, probe=action.candidate), codec or self._candidate_codec(), CANDIDATE
            )
        except LmiError as error:
            error.message = f"the candidate: {error.message}"
            raise
        return f"{outcome}; the candidate {answered}"

    def _shadow(self, action: ProbeEndpoint) -> str:
        """No request can name it: "TargetVariant: specify the production variant" (InvokeEndpoint)."""
        observed = self.cloud.hosting.endpoint(action.endpoint)
        candidate = observed.candidate if observed else None
        if candidate is None or not candidate.shadow or candidate.count < 1:
            raise DeployFailed(
                f"{action.endpoint}: its shadow variant has no instance in service",
                hint=f"check `{self.ref.command('logs')}`, then run `lmi up` again",
            )
        return f"the shadow variant has {counted(candidate.count, 'instance')} in service"

    def _serving(self) -> ServingRecord:
        """By the record: of the pending generation, else of the current one."""
        record = self.services().records.read(self.ref.name)
        generation = (record.coming or record.current) if record else None
        if generation is None:
            raise NotFound(f"{self.ref.name}: no record of its probe", hint="`lmi up` writes one")
        return generation.serving

    def _candidate_codec(self) -> Codec:
        candidate = self._serving().candidate
        if candidate is None:
            raise NotFound(f"{self.ref.name}: no record of its candidate", hint="`lmi up` writes one")
        return codec_of(candidate.serving, self.ref.name)
