"""The parts of the composition root for a load job: the program that its machines run, and what that program opens."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final

from lmi_deploy.ports.inference_endpoint import InferenceEndpoint
from lmi_deploy.ports.object_store import ObjectStore

_PYTHONS: Final = ("3.11", "3.12")
"""Of the image: 3.11 (targets/sagemaker/transfer_job/resolve.py); 3.12 for a newer one."""


def load_job_files(environ: Mapping[str, str]) -> Mapping[str, bytes]:
    """By name: start.py, our packages as wheels, and the compiled ones for the Python of the job's image."""
    from lmi_deploy.composition.transfer_job import job_files
    from lmi_deploy.composition.user_folders import cache_folder
    from lmi_deploy.host.background_processes import LocalProcesses
    from lmi_deploy.host.clock import SystemClock
    from lmi_deploy.runtimes.compiled_wheels import NEEDED, WELCOME, compiled_wheels
    from lmi_deploy.targets.sagemaker.transfer_job.wheels import packed_compiled

    own = dict(filter(None, map(packed_compiled, (NEEDED, WELCOME))))
    mine = f"{sys.version_info.major}.{sys.version_info.minor}"
    others = tuple(one for one in _PYTHONS if one != mine or not own)
    cache, processes = cache_folder(environ) / "wheels", LocalProcesses(SystemClock())
    fetched = compiled_wheels(others, cache, processes, environ, needed=_PYTHONS[0])
    return {**job_files(), **own, **{path.name: path.read_bytes() for path in fetched}}


def open_load_machine(
    endpoint: str, bucket: str, owner: str, environ: Mapping[str, str] = os.environ
) -> tuple[ObjectStore, InferenceEndpoint]:
    """On a machine of the job, with its role. AccessError if the bucket does not belong to the owner."""
    from lmi_deploy.aws.client import AwsConnection
    from lmi_deploy.aws.s3.object_store import BucketLocation, S3Store
    from lmi_deploy.aws.sagemaker.hosting import SageMakerHosting
    from lmi_deploy.aws.session import aws_session
    from lmi_deploy.host.clock import SystemClock

    clock, session = SystemClock(), aws_session(region=environ.get("AWS_REGION", ""))
    store = S3Store(session, BucketLocation(bucket=bucket, owner=owner), clock=clock)
    hosting = SageMakerHosting(AwsConnection(session=session, clock=clock), account=owner)
    return store, hosting.inference_endpoint(endpoint)
