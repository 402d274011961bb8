"""One call to S3: the expected owner on each, bounded tries, botocore's errors in our words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lmi_deploy.aws.error_classification import GARBLED, AwsError
from lmi_deploy.aws.retry import RetryingClient
from lmi_deploy.aws.s3.client_factory import S3Clients
from lmi_deploy.aws.s3.error_messages import OWNERLESS, S3CallContext, explain
from lmi_deploy.errors import LmiError
from lmi_deploy.host.retry_policy import RetryPolicy
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.message_callback import Notify, ignore


class S3Calls:
    """Calls to one bucket, from any number of threads."""

    def __init__(
        self, clients: S3Clients, bucket: str, owner: str, *, clock: Clock, notify: Notify = ignore
    ) -> None:
        self.clients = clients
        self.bucket = bucket
        self.owner = owner
        self.clock = clock
        self.notify = notify
        self._line = RetryingClient(
            clients=clients,
            clock=clock,
            service="S3",
            policy=clients.settings.retries,
            notify=notify,
        )

    def __call__(self, call: str, *, key: str = "", **parameters: Any) -> dict[str, Any]:
        """The response of `call`, a method of boto3's client, or the LmiError of its failure."""
        given = {"Bucket": self.bucket, **parameters}
        if call not in OWNERLESS:
            given["ExpectedBucketOwner"] = self.owner
        if key:
            given["Key"] = key
        subject = self._subject(call, key)
        return self._line.run(call, given, what=subject.what, explain=lambda error: explain(error, subject))

    def pages(self, call: str, tokens: Mapping[str, str], **parameters: Any) -> Iterator[dict[str, Any]]:
        """Every page of a listing; `tokens` maps each request parameter for the next page to its field in the
        response.
        """
        more: dict[str, Any] = {}
        while True:
            page = self(call, **parameters, **more)
            yield page
            if not page["IsTruncated"]:
                return
            following = {requested: page.get(text) for requested, text in tokens.items() if page.get(text)}
            if not following or following == more:
                error = AwsError(
                    kind="garbled", code=GARBLED, message="a truncated listing without a continuation token"
                )
                raise explain(error, self._subject(call, str(parameters.get("key", ""))))
            more = following

    def denied(self, call: str, key: str, error: Mapping[str, str]) -> LmiError:
        """For the refusal of one of many keys, which is inside a successful response."""
        aws_error = AwsError(kind="final", code="AccessDenied", status=403, message=error.get("Message", ""))
        return explain(aws_error, self._subject(call, key))

    @property
    def policy(self) -> RetryPolicy:
        return self._line.policy

    def pause(self, count: int) -> None:
        """Before another attempt, longer each time."""
        self._line.pause(count)

    def _subject(self, call: str, key: str) -> S3CallContext:
        clients = self.clients
        return S3CallContext(
            call=call,
            bucket=self.bucket,
            key=key,
            owner=self.owner,
            region=clients.region,
            partition=clients.partition,
            endpoint=clients.endpoint,
        )
