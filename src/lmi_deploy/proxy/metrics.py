"""What is counted, for Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lmi_deploy.proxy.concurrency_limit import RequestLimiter
from lmi_deploy.proxy.stream_lines import TokenUsage

if TYPE_CHECKING:
    from prometheus_client import Counter, Histogram

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class ProxyMetrics:
    """`model` is the deployment's name, empty if there is none of the name in the request."""

    def __init__(self) -> None:
        # Its import reads the environment.
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._known: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._registry = registry = CollectorRegistry(auto_describe=True)
        self._requests = Counter(
            "lmi_proxy_requests",
            "Requests by status code; for a stream that broke, the status of its error. 499: the client left.",
            ("model", "route", "status"),
            registry=registry,
        )
        self._seconds = Histogram(
            "lmi_proxy_request_seconds",
            "From the request to the end of its response.",
            ("model", "route"),
            buckets=_SECONDS,
            registry=registry,
        )
        self._first = Histogram(
            "lmi_proxy_first_token_seconds",
            "From the request to the first event of its stream.",
            ("model",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._tokens = Counter(
            "lmi_proxy_tokens",
            "Tokens, if the model server counts them.",
            ("model", "kind"),
            registry=registry,
        )
        self._in_flight = Gauge(
            "lmi_proxy_in_flight", "Requests at the deployment.", ("model",), registry=registry
        )
        self._queued = Gauge(
            "lmi_proxy_queued", "Requests that wait for a slot.", ("model",), registry=registry
        )

    def watch(self, model: str, limiter: RequestLimiter) -> None:
        """Show its requests from now on."""
        self._in_flight.labels(model).set_function(lambda: limiter.running)
        self._queued.labels(model).set_function(lambda: limiter.waiting)

    def ended(self, model: str, route: str, status: int, seconds: float) -> None:
        key = (model, route, status)
        if key not in self._known:  # a look-up by label takes longer than the count itself
            requests = self._requests.labels(model, route, str(status))
            self._known[key] = (requests, self._seconds.labels(model, route))
        requests, durations = self._known[key]
        requests.inc()
        durations.observe(seconds)

    def first_token(self, model: str, seconds: float) -> None:
        self._first.labels(model).observe(seconds)

    def tokens(self, model: str, usage: TokenUsage) -> None:
        if usage.prompt is not None:
            self._tokens.labels(model, "prompt").inc(usage.prompt)
        self._tokens.labels(model, "completion").inc(usage.completion)

    def text(self) -> bytes:
        from prometheus_client import generate_latest

        return generate_latest(self._registry)
