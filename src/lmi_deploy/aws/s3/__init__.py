"""S3 behind the ports ObjectStore, Journal and Lock."""

from __future__ import annotations

from lmi_deploy.aws.s3.client_factory import S3Settings
from lmi_deploy.aws.s3.object_store import BucketLocation, S3Store

__all__ = ["BucketLocation", "S3Settings", "S3Store"]
