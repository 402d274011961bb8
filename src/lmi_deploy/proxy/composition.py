"""The parts of a running proxy, constructed and connected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from lmi_deploy.composition.local import wire
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.secret import Secret
from lmi_deploy.inference_client.client import InferenceClient, certificate_authorities
from lmi_deploy.proxy.access_control import ProxyAccess
from lmi_deploy.proxy.app import ProxyApp
from lmi_deploy.proxy.concurrency_limit import RequestLimiter
from lmi_deploy.proxy.deployments import Deployments
from lmi_deploy.proxy.metrics import ProxyMetrics
from lmi_deploy.proxy.upstream import Upstream, list_adapters


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings:
    """`refs`: None is every deployment that this machine knows. `timeout`: seconds without data."""

    host: str
    port: int
    refs: tuple[DeploymentRef, ...] | None
    key: Secret
    key_is_generated: bool
    concurrency: int
    queue: int
    timeout: float
    drain_seconds: float
    as_json: bool
    parent: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyParts:
    app: ProxyApp
    client: InferenceClient
    deployments: Deployments


def compose(settings: ProxySettings, environ: Mapping[str, str], report: Callable[[str], None]) -> ProxyParts:
    """Nothing is opened before the first request."""
    metrics = ProxyMetrics()

    def limiter(name: str) -> RequestLimiter:
        made = RequestLimiter(concurrency=settings.concurrency, queue=settings.queue)
        metrics.watch(name, made)
        return made

    client = InferenceClient(tls=certificate_authorities(environ))
    deployments = Deployments(
        wire(environ, notify=report).targets,
        settings.refs,
        limiter=limiter,
        list_adapters=partial(list_adapters, client),
    )
    app = ProxyApp(
        deployments=deployments,
        upstream=Upstream(client, deployments, timeout=settings.timeout),
        access=ProxyAccess(settings.host, settings.key),
        reading=RequestLimiter(concurrency=settings.concurrency + settings.queue, queue=0),
        metrics=metrics,
        report=report,
    )
    return ProxyParts(app=app, client=client, deployments=deployments)
