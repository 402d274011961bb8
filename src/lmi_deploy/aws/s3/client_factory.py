"""boto3's S3 client as we use it: pool, time-outs, bounded retries, no payload hashed twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from lmi_deploy import __version__
from lmi_deploy.aws.client_factory import Clients
from lmi_deploy.aws.lock.lock_fencing import LeaseGuard
from lmi_deploy.aws.retry import POLICY
from lmi_deploy.aws.s3.signed_put import FastPutClient
from lmi_deploy.aws.session import SessionFactory, region_of
from lmi_deploy.domain.byte_units import MIB
from lmi_deploy.host.retry_policy import RetryPolicy

_SMALL: Final = MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Settings:
    """`connections` is the size of the pool: the number of parts in transfer at once. `attempts` are botocore's own
    within one of our `retries`.
    """

    connections: int = 16
    attempts: int = 3
    retries: RetryPolicy = POLICY
    connect_seconds: float = 10.0
    stall_seconds: float = 60.0
    copy_part_size: int = 512 << 20
    """Bytes of one part of a copy inside S3."""
    endpoint_url: str = ""
    """Empty: botocore finds it (AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile, else AWS)."""


class S3Clients(Clients):
    """S3's, as we use it."""

    def __init__(
        self, session: SessionFactory, settings: S3Settings, *, guard: LeaseGuard | None = None
    ) -> None:
        super().__init__(session, self._client, guard=guard)
        self.settings = settings

    def _client(self, session: Any) -> Any:
        from botocore.config import Config

        settings = self.settings
        config = Config(
            retries={"mode": "standard", "total_max_attempts": settings.attempts},
            max_pool_connections=settings.connections,
            connect_timeout=settings.connect_seconds,
            read_timeout=settings.stall_seconds,
            tcp_keepalive=True,
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            user_agent_extra=f"lmi-deploy/{__version__}",
        )
        client = session.client(
            "s3",
            region_name=region_of(session),
            endpoint_url=settings.endpoint_url or None,
            config=config,
        )
        events = client.meta.events
        events.register("before-sign.s3", _leave_payload_unsigned)
        events.register("before-call.s3.GetObject", _request_checksum)
        events.register("before-call.s3.CopyObject", _copy_without_annotations)
        events.register("before-call.s3", _stay_in_region)
        events.register("before-call.s3", _send_small_bodies_at_once)
        return FastPutClient(client)


def _leave_payload_unsigned(request: Any, **_: Any) -> None:
    # The CRC32 that is sent with the payload protects it, and so does TLS; a sha256 of it would add nothing. botocore
    # decides so itself if it computed the checksum; here ours is declared to it. It checks the profile first, and for
    # TLS.
    if "x-amz-checksum-crc32" in request.headers:
        own = {"in": "header", "name": "x-amz-checksum-crc32", "algorithm": "crc32"}
        request.context["checksum"] = {**request.context.get("checksum", {}), "request_algorithm": own}


def _request_checksum(params: dict[str, Any], **_: Any) -> None:
    # Sent as a header by hand: botocore then reads the checksum of the response, but leaves the check to us, because
    # we continue it after a broken connection.
    params["headers"]["x-amz-checksum-mode"] = "ENABLED"


def _copy_without_annotations(params: dict[str, Any], **_: Any) -> None:
    # Taking them over, S3's default, needs s3:GetObjectAnnotation and s3:PutObjectAnnotation. Sent as a header, as
    # the oldest botocore that we work with does not know the parameter (AnnotationDirective).
    params["headers"]["x-amz-object-annotation-directive"] = "EXCLUDE"


def _stay_in_region(context: dict[str, Any], **_: Any) -> None:
    # botocore would silently follow a redirect to the bucket's region; we explain that the bucket is in another
    # region.
    context.setdefault("s3_redirect", {})["redirected"] = True


def _send_small_bodies_at_once(params: dict[str, Any], **_: Any) -> None:
    # botocore waits for the server's consent before it sends any body ("Expect: 100-continue"): worth it for a part,
    # not for 100 KB.
    if "Expect" in params["headers"]:
        from botocore.utils import determine_content_length

        if (determine_content_length(params["body"]) or 0) <= _SMALL:
            del params["headers"]["Expect"]
