"""Where a bucket is, when nobody says so: S3 tells it whichever region is asked."""

from __future__ import annotations

from lmi_deploy.aws.aws_error import read_fault
from lmi_deploy.aws.s3.client import Calls
from lmi_deploy.aws.s3.client_factory import S3Clients, S3Settings
from lmi_deploy.aws.session import SessionFactory
from lmi_deploy.errors import AccessError
from lmi_deploy.ports.clock import Clock


def bucket_region(
    session: SessionFactory, bucket: str, owner: str, *, clock: Clock, settings: S3Settings | None = None
) -> str:
    """Raises NotFound and AccessError as every call does, but not for a bucket that is merely elsewhere."""
    calls = Calls(S3Clients(session, settings or S3Settings()), bucket, owner, clock=clock)
    asked = calls.clients.region
    try:
        answer = calls("head_bucket")
    except AccessError as exc:
        told = read_fault(exc.__cause__).region if isinstance(exc.__cause__, Exception) else ""
        if told in ("", asked):
            raise
        return told
    return str(answer.get("BucketRegion") or asked)
