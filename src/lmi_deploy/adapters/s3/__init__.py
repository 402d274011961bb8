"""S3 behind the ports ObjectStore, Journal and Lock."""

from __future__ import annotations

from lmi_deploy.adapters.s3.clients import S3Settings
from lmi_deploy.adapters.s3.store import Place, S3Store

__all__ = ["Place", "S3Settings", "S3Store"]
