"""The part of the composition root that a transfer job opens: its bucket, and the Hub with the job's own token."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from lmi_deploy.core.transfer_job import Order
from lmi_deploy.core.weights import BucketWish
from lmi_deploy.ports.source import Source
from lmi_deploy.ports.weights import Weights


def open_order(order: Order, environ: Mapping[str, str] = os.environ) -> tuple[Weights, Source]:
    """AccessError where the bucket is not the account's that ordered, or the secret may not be read."""
    from lmi_deploy.adapters.aws.secrets import read_secret
    from lmi_deploy.adapters.aws.session import aws_session
    from lmi_deploy.adapters.clock import SystemClock
    from lmi_deploy.adapters.hub import HubSettings, HuggingFaceHub
    from lmi_deploy.cli.wiring_weights import open_weights

    clock, region = SystemClock(), environ.get("AWS_REGION", "")
    settings = HubSettings.read(environ, Path.home())
    if order.token_secret:
        token = read_secret(aws_session(region=region), order.token_secret)
        settings = replace(settings, token=token, token_from=f"the secret {order.token_secret}")
    wish = BucketWish(bucket=order.bucket, region=region, kms_key=order.kms_key)
    weights = open_weights(wish, order.memory // 1_000_000, clock, environ)
    return weights, HuggingFaceHub(settings, clock, ledger=settings.cache / "checked")


def luggage() -> Mapping[str, bytes]:
    """What a job needs of us, by file name: the program that starts it, and our packages as wheels."""
    from lmi_deploy.adapters.wheels import wheelhouse
    from lmi_deploy.cli import job_start

    return {"start.py": Path(job_start.__file__).read_bytes(), **wheelhouse()}
