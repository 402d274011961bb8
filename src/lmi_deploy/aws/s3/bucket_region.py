"""Find the region of a bucket: S3 returns it from any region."""

from __future__ import annotations

from lmi_deploy.aws.aws_error import read_error
from lmi_deploy.aws.s3.client import S3Calls
from lmi_deploy.aws.s3.client_factory import S3Clients, S3Settings
from lmi_deploy.aws.session import SessionFactory
from lmi_deploy.errors import AccessError
from lmi_deploy.ports.clock import Clock


def bucket_region(
    session: SessionFactory, bucket: str, owner: str, *, clock: Clock, settings: S3Settings | None = None
) -> str:
    """Raises NotFound and AccessError as every call does, but not for a bucket that is merely elsewhere."""
    calls = S3Calls(S3Clients(session, settings or S3Settings()), bucket, owner, clock=clock)
    requested = calls.clients.region
    try:
        response = calls("head_bucket")
    except AccessError as exc:
        text = read_error(exc.__cause__).region if isinstance(exc.__cause__, Exception) else ""
        if text in ("", requested):
            raise
        return text
    return str(response.get("BucketRegion") or requested)
