"""What SageMaker measures of invocations: of the variant, and of each inference component.

Unlike a variant without traffic, an idle component with copies has values, of 0: a component with
`SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution` went to zero copies 11 minutes after its last
request (measured on an ml.g5.xlarge, us-east-1, July 2026: Hugging Face's deployment guide for SageMaker, "Measured
behaviour"). AWS's own example of scaling to zero tracks InvocationsPerCopy (SageMaker developer guide, "Scale an
endpoint to zero instances").
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from lmi_deploy.emulator.context import EmulatorContext
from lmi_deploy.emulator.hosting.instances import HostingInstance
from lmi_deploy.emulator.sagemaker.resources import ENDPOINT, INFERENCE_COMPONENT
from lmi_deploy.emulator.scaling.scaled_variants import shrinking
from lmi_deploy.emulator.services.metrics import Dimensions, Point
from lmi_deploy.emulator.wire.errors import ApiError

_NAMESPACE: Final = "AWS/SageMaker"


@dataclass(frozen=True, slots=True)
class InvocationMetrics:
    context: EmulatorContext

    @contextlib.contextmanager
    def measured(self, instance: HostingInstance) -> Iterator[None]:
        """Invocations, their errors, and the model's latency in microseconds."""
        started, failed = time.monotonic(), 0
        if instance.port is None:  # it echoes
            self.in_flight(instance)
        try:
            yield
        except ApiError as error:
            failed = int(error.fields.get("OriginalStatusCode", 0)) or 500
            raise
        finally:
            latency = (time.monotonic() - started) * 1e6
            self._of_variant(instance, "Invocations", 1.0)
            self._of_variant(instance, "InvocationsPerInstance", 1.0 / self._instances(instance))
            self._of_variant(instance, "Invocation4XXErrors", float(400 <= failed < 500))
            self._of_variant(instance, "Invocation5XXErrors", float(failed >= 500))
            self._of_variant(instance, "ModelLatency", latency, "Microseconds")
            self._of_component(instance, "InvocationsPerCopy", 1.0)

    def in_flight(self, instance: HostingInstance) -> None:
        """Concurrent requests, as of now."""
        requests = max(1, instance.in_flight)
        self._of_variant(instance, "ConcurrentRequestsPerModel", requests / self._instances(instance))
        self._of_component(instance, "ConcurrentRequestsPerCopy", requests)

    def idle(self, busy: Collection[tuple[str, str]], at: float) -> None:
        """Of components that may lose copies, but none of `busy`: regions and names. The values of others would change
        nothing.
        """
        for region, component in shrinking(self.context):
            for metric in ("InvocationsPerCopy", "ConcurrentRequestsPerCopy"):
                if (region, component) not in busy:
                    name = (region, _NAMESPACE, metric, (("InferenceComponentName", component),))
                    self.context.metrics.put(name, Point(at, 0.0, "None"))

    def _instances(self, instance: HostingInstance) -> int:
        """Those that the variant's invocations are spread over."""
        row = self.context.table(ENDPOINT.table, instance.place.region).get(instance.place.endpoint)
        variants = ((row or {}).get("serving") or {"variants": []})["variants"]
        counts = [existing["count"] for existing in variants if existing["name"] == instance.place.variant]
        return max(1, *counts) if counts else 1

    def _of_variant(self, instance: HostingInstance, metric: str, value: float, unit: str = "None") -> None:
        """And, of the metrics that it has, of the inference component."""
        for dimensions in instance.place.metric_dimensions(metric):
            self._put(instance.place.region, metric, value, dimensions, unit)

    def _of_component(self, instance: HostingInstance, metric: str, value: float) -> None:
        """Divided by the copies."""
        region, name = instance.place.region, instance.place.component
        row = self.context.table(INFERENCE_COMPONENT.table, region).get(name) if name else None
        if row is not None:
            self._put(region, metric, value / max(1, row["copies"]), (("InferenceComponentName", name),))

    def _put(
        self, region: str, metric: str, value: float, dimensions: Dimensions, unit: str = "None"
    ) -> None:
        name = (region, _NAMESPACE, metric, dimensions)
        self.context.metrics.put(name, Point(self.context.clock.now(), value, unit))
