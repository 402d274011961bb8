"""The port Account: STS names the caller, S3 describes the buckets."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from lmi_deploy.aws.client import AwsConnection, Service
from lmi_deploy.aws.retry import Notify, ignore
from lmi_deploy.aws.s3 import bucket as buckets
from lmi_deploy.aws.s3.client import S3Calls
from lmi_deploy.aws.s3.client_factory import S3Clients, S3Settings
from lmi_deploy.aws.session import SessionFactory
from lmi_deploy.ports.account import Caller
from lmi_deploy.ports.clock import Clock


class AwsAccount:
    """`endpoint_url` of the settings is for S3; STS has its own in the environment (AWS_ENDPOINT_URL_STS)."""

    def __init__(
        self,
        session: SessionFactory,
        *,
        clock: Clock,
        settings: S3Settings | None = None,
        sts_url: str = "",
        notify: Notify = ignore,
    ) -> None:
        self._session = session
        self._clock = clock
        self._clients = S3Clients(session, settings or S3Settings())
        self._sts_url = sts_url
        self._notify = notify
        self._lock = threading.Lock()
        self._caller: Caller | None = None

    def get_caller(self) -> Caller:
        with self._lock:
            if self._caller is None:
                self._caller = self._get_caller_identity()
            return self._caller

    def has_bucket(self, bucket: str) -> bool:
        return buckets.exists(self._calls(bucket))

    def make_bucket(self, bucket: str, *, tags: Mapping[str, str], kms_key: str = "") -> None:
        buckets.make(self._calls(bucket), tags=tags, kms_key=kms_key)

    def upload_rule_advice(self, bucket: str) -> str:
        return buckets.upload_rule_advice(self._calls(bucket))

    def _calls(self, bucket: str) -> S3Calls:
        return S3Calls(
            self._clients, bucket, self.get_caller().account, clock=self._clock, notify=self._notify
        )

    def _get_caller_identity(self) -> Caller:
        access = AwsConnection(session=self._session, clock=self._clock, notify=self._notify)
        sts = Service(access, "sts", url=self._sts_url)
        response = sts("get_caller_identity", "STS does not say who we are", needs="Arn")
        arn = str(response["Arn"])
        return Caller(
            account=str(response["Account"]), arn=arn, partition=arn.split(":")[1], region=sts.region
        )
