"""Names of a deployment's resources on SageMaker.

A name contains the digest of all settings, so that the same settings find the same resource on every machine. The tags,
the version of the tool and the time to live are in no digest.
"""

from __future__ import annotations

import re

from lmi_deploy.domain.sagemaker.resource_settings import ResourceKind
from lmi_deploy.domain.settings_digest import digest, short


def resource_name(deployment: str, settings: object) -> str:
    """`<deployment>-<10 hex>`: at most 59 of the 63 characters that SageMaker allows."""
    return f"{deployment}-{short(digest(settings))}"


def is_resource_name(kind: ResourceKind, name: str, deployment: str) -> bool:
    """Whether the name has lmi's form. A tag alone does not prove ownership: every principal with
    AddTags can set it.
    """
    if kind == "endpoint":
        return name == deployment
    number = r"(-\d{1,3})?" if kind == "processing-job" else ""
    return re.fullmatch(rf"{re.escape(deployment)}-[0-9a-f]{{10}}{number}", name) is not None
