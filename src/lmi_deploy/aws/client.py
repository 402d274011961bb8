"""Calls to one AWS service: bounded tries, pages to the last one, botocore's errors in our words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from lmi_deploy import __version__
from lmi_deploy.aws.client_factory import Clients
from lmi_deploy.aws.clock_skew import ClockSkew
from lmi_deploy.aws.error_classification import AwsError
from lmi_deploy.aws.error_messages import AwsCallContext, explain
from lmi_deploy.aws.lock.lock_fencing import LeaseGuard
from lmi_deploy.aws.retry import POLICY, RetryingClient, always
from lmi_deploy.aws.session import SessionFactory, region_of
from lmi_deploy.errors import LmiError
from lmi_deploy.host.retry_policy import RetryPolicy
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.message_callback import Notify, ignore

NAMES: Final = {
    "application-autoscaling": "Application Auto Scaling",
    "cloudtrail": "CloudTrail",
    "cloudwatch": "CloudWatch",
    "ec2": "EC2",
    "ecr": "ECR",
    "iam": "IAM",
    "logs": "CloudWatch Logs",
    "pricing": "the price list",
    "resourcegroupstaggingapi": "the tagging API",
    "sagemaker": "SageMaker",
    "sagemaker-runtime": "SageMaker's runtime",
    "scheduler": "EventBridge Scheduler",
    "secretsmanager": "Secrets Manager",
    "service-quotas": "Service Quotas",
    "sns": "SNS",
    "sts": "STS",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsConnection:
    """How every service of one account and region is reached. `attempts` are botocore's own within one of our
    `retries`; one service's clock is every service's."""

    session: SessionFactory
    clock: Clock
    notify: Notify = ignore
    attempts: int = 4
    retries: RetryPolicy = POLICY
    connect_seconds: float = 10.0
    read_seconds: float = 60.0
    manner: Literal["adaptive", "standard"] = "adaptive"
    """Of botocore's tries: a client that is throttled slows down by itself, or only tries again."""
    skew: ClockSkew = field(default_factory=ClockSkew)
    guard: LeaseGuard | None = None
    """Checked before each request that changes something."""
    _clients: dict[tuple[str, str, str], Clients] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def clients(self, service: str, *, region: str = "", url: str = "") -> Clients:
        """The same for all who use this connection: to make a client takes longer than to send a request."""
        made = Clients(
            self.session,
            lambda session: self._client(session, service, region, url),
            clock_skew=self.skew,
            guard=self.guard,
        )
        return self._clients.setdefault((service, region, url), made)

    def _client(self, session: Any, service: str, region: str, url: str) -> Any:
        from botocore.config import Config

        settings = Config(
            retries={"mode": self.manner, "total_max_attempts": self.attempts},
            connect_timeout=self.connect_seconds,
            read_timeout=self.read_seconds,
            user_agent_extra=f"lmi-deploy/{__version__}",
        )
        return session.client(
            service,
            region_name=region or region_of(session),
            endpoint_url=url or None,
            config=settings,
        )


class Service:
    """One service. Every call states its subject for error messages, and its resource for IAM."""

    def __init__(
        self,
        access: AwsConnection,
        name: str,
        *,
        region: str = "",
        url: str = "",
        repeatable: Callable[[AwsError], bool] = always,
    ) -> None:
        self._access = access
        self._name = name
        self._line = RetryingClient(
            clients=access.clients(name, region=region, url=url),
            clock=access.clock,
            service=NAMES[name],
            policy=access.retries,
            notify=access.notify,
            repeatable=repeatable,
        )

    @property
    def clock(self) -> Clock:
        return self._access.clock

    @property
    def region(self) -> str:
        return self._line.clients.region

    @property
    def partition(self) -> str:
        return self._line.clients.partition

    @property
    def endpoint(self) -> str:
        return self._line.clients.endpoint

    def __call__(
        self, call: str, what: str, *, resource: str = "*", needs: str = "", **given: Any
    ) -> dict[str, Any]:
        """The response of `call`, a method of boto3's client; `needs` lists its required fields."""
        return self._line.run(
            call,
            given,
            what=what,
            explain=lambda error: self.explained(error, call, what, resource),
            needs=needs,
        )

    def pages(
        self, call: str, what: str, *, token: str, items: str, resource: str = "*", **given: Any
    ) -> Iterator[Any]:
        """The items of every page; `token` is the name of the field that holds the next token in response and
        request.
        """
        more: dict[str, Any] = {}
        while True:
            # A truncated response looks like one without items: only an empty list means that nothing was found.
            response = self(call, what, resource=resource, needs=items, **given, **more)
            yield from response[items]
            if not response.get(token) or response[token] == more.get(token):
                return
            more = {token: response[token]}

    def explained(self, error: AwsError, call: str, what: str, resource: str) -> LmiError:
        clients = self._line.clients
        operation = clients.api.meta.method_to_api_mapping[call]
        subject = AwsCallContext(
            service=NAMES[self._name],
            what=what,
            action=f"{clients.api.meta.service_model.signing_name}:{operation}",
            resource=resource,
            region=clients.region,
            endpoint=clients.endpoint,
        )
        return explain(error, subject)
