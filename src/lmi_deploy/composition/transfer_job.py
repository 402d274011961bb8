"""The part of the composition root that a transfer job opens: its bucket, and the Hub with the job's own token."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from lmi_deploy.domain.sagemaker.transfer_job import JobRequest
from lmi_deploy.domain.weights import BucketRequest
from lmi_deploy.ports.source import Source
from lmi_deploy.ports.weights import WeightsStore


def open_order(order: JobRequest, environ: Mapping[str, str] = os.environ) -> tuple[WeightsStore, Source]:
    """AccessError if the bucket does not belong to the requesting account, or the secret may not be read."""
    from lmi_deploy.aws.secrets import read_secret
    from lmi_deploy.aws.session import aws_session
    from lmi_deploy.composition.weights import open_weights
    from lmi_deploy.host.clock import SystemClock
    from lmi_deploy.sources.hub import HubSettings, HuggingFaceHub

    clock, region = SystemClock(), environ.get("AWS_REGION", "")
    settings = HubSettings.read(environ, Path.home())
    if order.token_secret:
        token = read_secret(aws_session(region=region), order.token_secret)
        settings = replace(settings, token=token, token_from=f"the secret {order.token_secret}")
    bucket_request = BucketRequest(bucket=order.bucket, region=region, kms_key=order.kms_key)
    weights = open_weights(bucket_request, order.memory // 1_000_000, clock, environ)
    return weights, HuggingFaceHub(settings, clock, ledger=settings.cache / "checked")


def job_files() -> Mapping[str, bytes]:
    """The files that a job needs from lmi, by name: the program that starts it, and our packages as wheels."""
    from lmi_deploy.targets.sagemaker.transfer_job import bootstrap
    from lmi_deploy.targets.sagemaker.transfer_job.wheels import wheelhouse

    return {"start.py": Path(bootstrap.__file__).read_bytes(), **wheelhouse()}
